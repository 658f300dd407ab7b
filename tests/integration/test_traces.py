"""One trace a request, through all four services, to a real receiver over the wire."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.sources.interface import CandidateSource
from dspark.client import AsyncClient
from dspark.verifier.server import Load
from harness.fake_model import FakeModel
from harness.otlp_receiver import OtlpReceiver, ReceivedSpan, otlp_receiver
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.traced_stack import MODEL, TracedStack, grpc_variables, traced_stack
from harness.verifier_service import fake_loader

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + "0"
TRACE_ID, PARENT_SPAN = PARENT.split("-")[1:3]
SERVER = 2
SCOPES = {"dspark.gateway", "dspark.scheduler", "dspark.candidates", "dspark.verifier"}
PROMPT = "abcabcabcabc"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as running:
        yield running


MODEL_OF_BYTES = FakeModel(vocab_size=258)


@pytest.fixture
def load() -> Load:
    return fake_loader(MODEL_OF_BYTES)


def greedy(token_ids: Sequence[int]) -> list[int]:
    """The next tokens at temperature 0."""
    known = list(token_ids)
    for _ in range(3):
        known.append(int(MODEL_OF_BYTES.next_logits(known).argmax()))
    return known[len(token_ids) :]


def sources() -> list[CandidateSource]:
    """One that is right at times, and one that never is."""
    return [
        ScriptedSource(name, SCRIPTS[name], greedy, MODEL_OF_BYTES.vocab_size)
        for name in ("alternating", "adversary")
    ]


async def complete(stack: TracedStack, traceparent: str = "", **fields: Any) -> dict[str, Any]:
    body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True, **fields}
    headers = {"traceparent": traceparent} if traceparent else {}
    response = await stack.client.post("/v1/completions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def whole_trace(receiver: OtlpReceiver, trace_id: str) -> list[ReceivedSpan]:
    """The trace once its root, which ends last, and all that steps caused has come."""

    def is_whole() -> bool:
        spans = receiver.trace(trace_id)
        steps = {span.span_id for span in spans if span.name == "step"}
        verified = {span.parent_id for span in spans if span.name == "verify"}
        return any(span.scope == "dspark.gateway" for span in spans) and steps == verified

    await asyncio.to_thread(receiver.wait_for, is_whole)
    return receiver.trace(trace_id)


def assert_one_tree(spans: list[ReceivedSpan], parent: str) -> None:
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    assert [s.name for s in spans if s.parent_id not in ids] == [
        s.name for s in spans if s.parent_id == parent
    ]
    assert len([span for span in spans if span.parent_id == parent]) == 1


def named(spans: list[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == name]


async def test_a_request_is_one_tree_over_four_services(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    async with traced_stack(tmp_path, load, grpc_variables(receiver), sources()) as stack:
        answer = await complete(stack, PARENT, seed=0, top_p=1.0)
        spans = await whole_trace(receiver, TRACE_ID)
    assert_one_tree(spans, PARENT_SPAN)
    assert {span.scope for span in spans} == SCOPES
    by_id = {span.span_id: span for span in spans}
    parents = {(s.name, by_id[s.parent_id].name) for s in spans if s.parent_id in by_id}
    assert parents == {
        ("generate", f"text_completion {MODEL}"),
        ("queue", "generate"),
        ("prefill", "generate"),
        ("decode", "generate"),
        ("step", "prefill"),
        ("step", "decode"),
        ("propose", "step"),
        ("verify", "step"),
    }
    for span in spans:
        assert span.start_ns <= span.end_ns
    (root,) = (span for span in spans if span.parent_id == PARENT_SPAN)
    assert root.kind == SERVER
    assert_conventions(root, answer)
    assert_statistics(spans, answer)


def assert_conventions(root: ReceivedSpan, answer: dict[str, Any]) -> None:
    usage = answer["usage"]
    expected = {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "dspark",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.max_tokens": 24,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.top_k": 0,
        "gen_ai.request.seed": 0,
        "gen_ai.request.choice.count": 1,
        "gen_ai.request.stream": False,
        "gen_ai.response.model": MODEL,
        "gen_ai.response.finish_reasons": [answer["choices"][0]["finish_reason"]],
        "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.output_tokens": usage["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": 0,
    }
    assert {name: root.attributes.get(name) for name in expected} == expected
    assert answer["id"].endswith(root.attributes["gen_ai.response.id"])
    assert root.attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert "error.type" not in root.attributes
    assert PROMPT not in str(root.attributes)


def assert_statistics(spans: list[ReceivedSpan], answer: dict[str, Any]) -> None:
    """What the steps tell adds up to what the response tells."""
    told = answer["speculation"]
    steps = [span.attributes for span in named(spans, "step")]
    sums: Counter[str] = Counter()
    for attributes in steps:
        sums.update({k: v for k, v in attributes.items() if isinstance(v, int)})
    assert sums["dspark.committed_tokens"] == answer["usage"]["completion_tokens"]
    assert sums["dspark.tree.nodes"] == told["drafted"] > 0
    assert sums["dspark.accepted_nodes"] == told["accepted"]
    assert sum(bool(step["dspark.committed_tokens"]) for step in steps) == told["rounds"]
    for name, counts in told["sources"].items():
        assert sums[f"dspark.source.{name}.drafted"] == counts["drafted"]
        assert sums[f"dspark.source.{name}.accepted"] == counts["accepted"]
        assert sums[f"dspark.source.{name}.proposed"] >= counts["drafted"]
    (generate,) = named(spans, "generate")
    assert generate.attributes["dspark.speculation.drafted"] == told["drafted"]
    assert generate.attributes["dspark.steps.untraced"] == 0
    for step in steps:
        computed_ms = step["dspark.step.forward_ms"] - step["dspark.step.ahead_ms"]
        assert step["dspark.step.verify_ms"] >= computed_ms > 0
        assert step["dspark.step.overhead_ms"] > 0
        assert step["dspark.step.queue_ms"] >= 0
        assert step["dspark.step.price_tokens_per_ms"] >= 0
    for span in named(spans, "verify"):
        assert span.attributes["dspark.step.rows"] > 0
        assert span.attributes["dspark.step.forward_ms"] > 0


async def test_batched_steps_link_to_every_request_in_them(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    async with traced_stack(tmp_path, load, grpc_variables(receiver), sources()) as stack:
        await asyncio.gather(*(complete(stack, max_tokens=48) for _ in range(3)))
        roots = [s.trace_id for s in receiver.spans if not s.parent_id]
        await asyncio.to_thread(receiver.wait_for, lambda: len(roots_of(receiver)) == 3)
        roots = roots_of(receiver)
        traces = [await whole_trace(receiver, trace_id) for trace_id in roots]
    for spans in traces:
        assert_one_tree(spans, "")
        assert {span.scope for span in spans} == SCOPES
    for name in ("step", "verify", "propose"):
        batches: dict[Any, list[ReceivedSpan]] = {}
        for span in named(receiver.spans, name):
            batches.setdefault(span.start_ns, []).append(span)
        assert max(map(len, batches.values())) == 3, name
        for batch in batches.values():
            ids = {span.span_id for span in batch}
            first = [span for span in batch if set(span.links) == ids - {span.span_id}]
            assert first, name
            for span in batch:
                assert set(span.links) in (ids - {span.span_id}, {first[0].span_id})


def roots_of(receiver: OtlpReceiver) -> list[str]:
    return [span.trace_id for span in receiver.spans if not span.parent_id]


async def test_a_request_that_is_not_sampled_has_no_span(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    never = grpc_variables(
        receiver, OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0"
    )
    async with traced_stack(tmp_path, load, never) as stack:
        await complete(stack)
        await complete(stack, UNSAMPLED)
        await complete(stack, PARENT)
        spans = await whole_trace(receiver, TRACE_ID)
    assert {span.trace_id for span in receiver.spans} == {TRACE_ID}
    assert len(named(spans, "generate")) == 1


async def test_the_client_of_the_sdk_continues_its_callers_trace(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    from opentelemetry import trace

    context = trace.SpanContext(int(TRACE_ID, 16), int(PARENT_SPAN, 16), False, trace.TraceFlags(1))
    async with (
        traced_stack(tmp_path, load, grpc_variables(receiver), sources()) as stack,
        AsyncClient(stack.grpc_target) as client,
    ):
        with trace.use_span(trace.NonRecordingSpan(context)):
            completion = await client.generate(
                [{"role": "user", "content": "hi"}], max_tokens=6, seed=1, ignore_eos=True
            )
        spans = await whole_trace(receiver, TRACE_ID)
    assert_one_tree(spans, PARENT_SPAN)
    (root,) = (span for span in spans if span.parent_id == PARENT_SPAN)
    assert root.name == f"chat {MODEL}"
    assert root.attributes["gen_ai.request.stream"] is True
    assert root.attributes["gen_ai.usage.output_tokens"] == len(completion.token_ids) == 6


async def test_a_refused_request_says_why(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    async with traced_stack(tmp_path, load, grpc_variables(receiver), sources()) as stack:
        response = await stack.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 0})
        assert response.status_code == 400
        await asyncio.to_thread(receiver.wait_for, lambda: bool(receiver.spans))
    (span,) = receiver.spans
    assert span.attributes["error.type"] == "INVALID_ARGUMENT"
    assert "max_tokens" in (span.error or "")


async def test_text_is_recorded_only_if_it_is_asked_for(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    captured = grpc_variables(receiver, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    async with traced_stack(tmp_path, load, captured) as stack:
        answer = await complete(stack, PARENT)
        spans = await whole_trace(receiver, TRACE_ID)
    (root,) = (span for span in spans if span.parent_id == PARENT_SPAN)
    (asked,) = json.loads(root.attributes["gen_ai.input.messages"])
    (told,) = json.loads(root.attributes["gen_ai.output.messages"])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": PROMPT}]}
    assert told["parts"][0]["content"] == answer["choices"][0]["text"]
    others = [span for span in spans if span is not root]
    assert PROMPT not in str([span.attributes for span in others])


async def test_choices_are_one_tree_whose_root_tells_of_the_first(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    captured = grpc_variables(receiver, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    async with traced_stack(tmp_path, load, captured) as stack:
        answer = await complete(stack, PARENT, n=3, temperature=0.9)
        spans = await whole_trace(receiver, TRACE_ID)
    assert_one_tree(spans, PARENT_SPAN)
    assert len(named(spans, "generate")) == 3
    (root,) = (span for span in spans if span.parent_id == PARENT_SPAN)
    assert root.attributes["gen_ai.request.choice.count"] == 3
    assert root.attributes["gen_ai.request.seed"] == answer["choices"][0]["seed"]
    assert root.attributes["gen_ai.usage.output_tokens"] == 24
    (told,) = json.loads(root.attributes["gen_ai.output.messages"])
    assert told["parts"][0]["content"] == answer["choices"][0]["text"]


async def test_http_protobuf_brings_the_same(
    tmp_path: Path, receiver: OtlpReceiver, load: Load
) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.http_endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=blue",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    async with traced_stack(tmp_path, load, variables, sources()) as stack:
        answer = await complete(stack, PARENT)
        spans = await whole_trace(receiver, TRACE_ID)
    assert_one_tree(spans, PARENT_SPAN)
    assert_statistics(spans, answer)
    assert {span.service for span in spans} == {"mine"}
    assert spans[0].resource["deployment.environment.name"] == "test"
    assert receiver.headers[0]["x-tenant"] == "blue"


async def test_a_receiver_that_is_down_changes_nothing(
    tmp_path: Path, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    with otlp_receiver() as gone:
        variables = grpc_variables(gone, OTEL_EXPORTER_OTLP_TIMEOUT="0.2")
    async with traced_stack(tmp_path, load, variables, sources()) as stack:
        first = await complete(stack, PARENT)
        second = await complete(stack)
        assert first["choices"][0]["text"] == second["choices"][0]["text"]

        def warnings() -> list[str]:
            return [r.getMessage() for r in caplog.records if "spans are lost" in r.getMessage()]

        while not warnings():
            await asyncio.sleep(0.05)
        await complete(stack)
        await asyncio.sleep(0.5)
        assert len(warnings()) == 1
        assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]
