"""What clients are told of their requests, added up, is what the services' counters say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.sources.interface import CandidateSource
from dspark.client import AsyncClient
from harness.fake_model import FakeModel
from harness.metric_tables import CATALOGUES, PROCESS_METRICS, sample_names
from harness.scrape import Scrape, Scrapes, scrape_all
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.traced_stack import MODEL, TracedStack, traced_stack
from harness.verifier_service import fake_loader
from harness.waiting import until

BYTES = FakeModel(vocab_size=258)
PROMPTS = ("abcabcabcabc", "a prompt of some length, longer than a block", "x", "abcabcabcabcabc")
WORKER = "vllm:spec_decode_num_"


def greedy(token_ids: Sequence[int]) -> list[int]:
    known = list(token_ids)
    for _ in range(3):
        known.append(int(BYTES.next_logits(known).argmax()))
    return known[len(token_ids) :]


def sources() -> list[CandidateSource]:
    return [
        ScriptedSource(name, SCRIPTS[name], greedy, BYTES.vocab_size)
        for name in ("oracle", "alternating", "adversary")
    ]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[TracedStack]:
    async with traced_stack(tmp_path, fake_loader(BYTES), {}, sources()) as running:
        yield running


async def complete(stack: TracedStack, **fields: Any) -> dict[str, Any]:
    body = {"prompt": "hi", "max_tokens": 12, "temperature": 0, "ignore_eos": True, **fields}
    response = await stack.client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def stream_some(stack: TracedStack, num_events: int) -> None:
    """Read so many events of a long stream, then hang up."""
    body = {"prompt": "hang up", "max_tokens": 400, "ignore_eos": True, "stream": True}
    async with stack.client.stream("POST", "/v1/completions", json=body) as response:
        lines = response.aiter_lines()
        for _ in range(num_events):
            await anext(lines)


async def run_all(stack: TracedStack) -> list[dict[str, Any]]:
    jobs = [
        complete(stack, prompt=prompt, max_tokens=7 + 6 * index, temperature=index % 2)
        for index, prompt in enumerate(PROMPTS * 2)
    ]
    answers = await asyncio.gather(*jobs)
    return [*answers, await complete(stack, prompt=PROMPTS[1])]


def total(answers: list[dict[str, Any]], *path: str) -> int:
    values: list[Any] = answers
    for key in path:
        values = [value[key] for value in values]
    return sum(values)


def check_tokens(answers: list[dict[str, Any]], scrapes: Scrapes) -> None:
    gateway, scheduler, verifier = scrapes.gateway, scrapes.scheduler, scrapes.verifier
    prompt, generated, cached = (
        total(answers, "usage", "prompt_tokens"),
        total(answers, "usage", "completion_tokens"),
        total(answers, "usage", "prompt_tokens_details", "cached_tokens"),
    )
    assert cached > 0
    assert prompt == gateway.sum("vllm:prompt_tokens_total")
    assert prompt == gateway.sum("vllm:prefix_cache_queries_total")
    assert prompt == gateway.sum("vllm:request_prompt_tokens_sum")
    assert prompt == scheduler.sum("dspark_scheduler_prompt_tokens_total")
    assert prompt == verifier.sum("dspark_verifier_prefix_cache_queries_total")
    assert cached == gateway.sum("vllm:prefix_cache_hits_total")
    assert cached == scheduler.sum("dspark_scheduler_cached_tokens_total")
    assert cached == verifier.sum("dspark_verifier_prefix_cache_hits_total")
    assert generated == gateway.sum("vllm:generation_tokens_total")
    assert generated == gateway.sum("vllm:request_generation_tokens_sum")
    assert generated == scheduler.sum("dspark_scheduler_generation_tokens_total")
    assert generated == verifier.sum("dspark_verifier_committed_tokens_total")


def check_speculation(answers: list[dict[str, Any]], scrapes: Scrapes) -> None:
    gateway, scheduler, verifier = scrapes.gateway, scrapes.scheduler, scrapes.verifier
    rounds, drafted, accepted = (
        total(answers, "speculation", field) for field in ("rounds", "drafted", "accepted")
    )
    assert 0 < accepted < drafted
    assert rounds == gateway.sum("vllm:spec_decode_num_drafts_total")
    assert rounds == scheduler.sum("dspark_scheduler_verify_rounds_total")
    assert drafted == gateway.sum("vllm:spec_decode_num_draft_tokens_total")
    assert drafted == scheduler.sum("dspark_scheduler_tree_nodes_sum")
    assert drafted == verifier.sum("dspark_verifier_verified_nodes_total")
    assert accepted == gateway.sum("vllm:spec_decode_num_accepted_tokens_total")
    assert accepted == gateway.sum("vllm:spec_decode_num_accepted_tokens_per_pos_total")
    assert accepted == verifier.sum("dspark_verifier_accepted_nodes_total")
    assert accepted == total(answers, "usage", "completion_tokens") - rounds


def check_sources(answers: list[dict[str, Any]], scrapes: Scrapes) -> None:
    told: dict[str, Counter[str]] = {"drafted": Counter(), "accepted": Counter()}
    for answer in answers:
        for name, counts in answer["speculation"]["sources"].items():
            for kind, sums in told.items():
                sums[name] += counts[kind]
    assert set(told["drafted"]) == {source.name for source in sources()}
    scheduler, gateway = scrapes.scheduler, scrapes.gateway
    for kind, sums in told.items():
        assert scheduler.by(f"dspark_scheduler_source_{kind}_tokens_total", "source") == sums
    assert gateway.by("dspark_source_draft_tokens_total", "source") == told["drafted"]
    assert gateway.by("dspark_source_accepted_tokens_total", "source") == told["accepted"]
    proposed = scheduler.by("dspark_scheduler_source_proposed_tokens_total", "source")
    unique = scheduler.by("dspark_scheduler_source_unique_tokens_total", "source")
    for name, drafted in told["drafted"].items():
        assert proposed[name] >= drafted
        assert unique.get(name, 0) <= told["accepted"][name]
        assert scheduler.sum("dspark_scheduler_source_seconds_total", source=name) > 0
    assert unique["oracle"] > 0


def check_requests(answers: list[dict[str, Any]], scrapes: Scrapes) -> None:
    gateway, scheduler, verifier = scrapes.gateway, scrapes.scheduler, scrapes.verifier
    reasons = Counter(answer["choices"][0]["finish_reason"] for answer in answers)
    ends = {"stop": 0, "length": 0, "abort": 0, "error": 0, **reasons}
    assert gateway.by("vllm:request_success_total", "finished_reason") == ends
    assert scheduler.by("dspark_scheduler_requests_total", "finished_reason") == ends
    for histogram in (
        *("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_prompt_tokens"),
        *(
            "request_queue_time_seconds",
            "request_prefill_time_seconds",
            "request_params_max_tokens",
        ),
        *("request_decode_time_seconds", "request_inference_time_seconds"),
        *("request_time_per_output_token_seconds", "request_generation_tokens"),
    ):
        assert gateway.sum(f"vllm:{histogram}_count") == len(answers), histogram
    results = scheduler.by("dspark_scheduler_results_total", "status")
    assert results == verifier.by("dspark_verifier_results_total", "status")
    assert results["done"] >= total(answers, "speculation", "rounds")
    steps = scheduler.sum("dspark_scheduler_steps_total")
    assert steps == scheduler.sum("dspark_scheduler_worker_steps_total")
    assert steps == verifier.sum("dspark_verifier_step_seconds_count")
    assert scheduler.sum("dspark_scheduler_step_requests_sum") == sum(results.values())


async def test_sums_over_requests_are_the_counters(stack: TracedStack) -> None:
    answers = await run_all(stack)
    scrapes = await scrape_all(stack)
    check_tokens(answers, scrapes)
    check_speculation(answers, scrapes)
    check_sources(answers, scrapes)
    check_requests(answers, scrapes)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
async def test_every_limit_is_delivered_told_of_and_counted(
    stack: TracedStack, temperature: float
) -> None:
    """Runs of candidates that reach beyond the limit change nothing in what counts up to it."""
    fields = {"temperature": temperature, "seed": 3, "logprobs": 1, "return_token_ids": True}
    longest = await complete(stack, prompt=PROMPTS[0], max_tokens=24, **fields)
    # The sources follow the greedy text.
    assert longest["speculation"]["accepted"] > 0 or temperature
    whole = longest["choices"][0]
    logprobs = whole["logprobs"]["token_logprobs"]
    for limit in range(1, 24):
        answer = await complete(stack, prompt=PROMPTS[0], max_tokens=limit, **fields)
        (choice,) = answer["choices"]
        assert choice["token_ids"] == whole["token_ids"][:limit]
        assert choice["logprobs"]["token_logprobs"] == logprobs[:limit]
        assert answer["usage"]["completion_tokens"] == limit
        assert (len(choice["token_ids"]), choice["finish_reason"]) == (limit, "length")
    scrapes, delivered = await scrape_all(stack), sum(range(1, 25))
    assert scrapes.gateway.sum("vllm:generation_tokens_total") == delivered
    assert scrapes.verifier.sum("dspark_verifier_committed_tokens_total") == delivered


async def test_both_fronts_count_alike(stack: TracedStack) -> None:
    async with AsyncClient(stack.grpc_target) as client:
        completion = await client.generate("by gRPC", max_tokens=9, ignore_eos=True)
    scrape = (await scrape_all(stack)).gateway
    assert completion.usage.completion_tokens == scrape.sum("vllm:generation_tokens_total") == 9
    assert scrape.sum("vllm:request_success_total", finished_reason="length") == 1
    assert completion.speculation is not None
    assert completion.speculation.accepted == scrape.sum(f"{WORKER}accepted_tokens_total")


async def test_cancels_errors_and_stop_strings(stack: TracedStack) -> None:
    answers = await run_all(stack)
    text = answers[-1]["choices"][0]["text"]
    stopped = await complete(stack, prompt=PROMPTS[1], stop=[text[4]])
    for num_events in (1, 2, 4):
        await stream_some(stack, num_events)
    for body in ({"prompt": "x", "max_tokens": -1}, {"prompt": "x", "model": "another"}):
        assert (await stack.client.post("/v1/completions", json=body)).status_code in (400, 404)
    scheduler = stack.stack.scheduler.server.scheduler
    await until(lambda: scheduler.status.num_running == 0 and scheduler.is_idle)
    await until(lambda: stack.server.gateway.lifecycle.num_running == 0)
    scrapes = await scrape_all(stack)
    gateway, ends = (
        scrapes.gateway,
        scrapes.scheduler.by("dspark_scheduler_requests_total", "finished_reason"),
    )
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert ends == gateway.by("vllm:request_success_total", "finished_reason")
    assert (ends["abort"], ends["stop"], ends["length"]) == (3, 1, len(answers))
    told = total([*answers, stopped], "usage", "completion_tokens")
    committed = scrapes.scheduler.sum("dspark_scheduler_generation_tokens_total")
    assert told <= gateway.sum("vllm:generation_tokens_total") <= committed
    discarded = scrapes.scheduler.sum("dspark_scheduler_discarded_tokens_total")
    assert committed + discarded == scrapes.verifier.sum("dspark_verifier_committed_tokens_total")
    statuses = gateway.by("dspark_gateway_http_responses_total", "status")
    assert statuses["400"] == statuses["404"] == 1
    check_nothing_is_held(scrapes)


def check_nothing_is_held(scrapes: Scrapes) -> None:
    assert scrapes.verifier.sum("dspark_verifier_kv_blocks", state="in_use") == 0
    assert scrapes.verifier.sum("dspark_verifier_sequences") == 0
    assert scrapes.gateway.sum("dspark_gateway_requests_running") == 0
    assert scrapes.gateway.sum("vllm:kv_cache_usage_perc") == 0
    assert scrapes.gateway.sum("vllm:cache_config_info", block_size="4", num_gpu_blocks="512") == 1


async def test_each_service_shows_what_it_declares(stack: TracedStack) -> None:
    await run_all(stack)
    scrapes = await scrape_all(stack)
    shown = {name: getattr(scrapes, name) for name in CATALOGUES}
    for service, catalogue in CATALOGUES.items():
        scrape: Scrape = shown[service]
        names = {name: (kind, text) for name, kind, text in scrape.families}
        for declared in catalogue:
            assert names.pop(declared.name) == (declared.kind.value, declared.text), declared.name
            names_of = sample_names(declared)
            series = [set(dict(labels)) - {"le"} for n, labels in scrape.samples if n in names_of]
            assert all(set(declared.labels) == labels for labels in series), declared.name
        assert {name.removesuffix("_total") for name in PROCESS_METRICS} >= set(names), service


HEADERS = ("x-request-id", "user-agent", "authorization")


async def test_clients_cannot_make_new_series(stack: TracedStack) -> None:
    await complete(stack)
    for path in ("/nothing", "/v1/models", "/v1/models/none"):
        await stack.client.get(path)
    await stack.client.post("/v1/completions", content=b"{")
    await stack.client.post("/v1/completions", json={"prompt": "x", "model": "none"})
    await stream_some(stack, 1)
    await until(lambda: stack.server.gateway.lifecycle.num_running == 0)
    await scrape_all(stack)
    before = await scrape_all(stack)
    for index in range(30):
        odd = f'odd-{index}-%0A"{{}}'
        await stack.client.get(f"/v1/models/{odd}")
        await stack.client.get(f"/{odd}/metrics")
        await stack.client.request("PATCH", f"/{index}")
        await stack.client.get("/v1/models", headers=dict.fromkeys(HEADERS, f"id-{index}"))
        body = {"prompt": "x", "max_tokens": 1, "model": odd, "user": odd, "cache_salt": f"{index}"}
        await stack.client.post("/v1/completions", content=json.dumps(body))
        await complete(stack, model=MODEL, cache_salt=f"{index}", user=f"{index}", seed=index)
    after = await scrape_all(stack)
    for service in CATALOGUES:
        new = set(getattr(after, service).samples) - set(getattr(before, service).samples)
        assert not new, service
