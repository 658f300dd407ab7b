"""Several choices of one request: prompts in a list, and ``n`` of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dspark.client import AsyncClient
from dspark.errors import InvalidArgument, QueueFull
from dspark.gateway.choices import choice_seed
from dspark.v1 import scheduler_service_pb2 as pb
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack, sse_events

SEEDS = [choice_seed(11, index) for index in range(6)]


def _by_prompt(request: pb.SchedulerServiceGenerateRequest) -> Script:
    """Each prompt is answered by itself and the place of the choice's seed."""
    prompt = bytes(request.prompt_token_ids).decode()
    return Script(runs_of(f"{prompt}{SEEDS.index(request.sampling.seed)}"))


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path, FakeScheduler(script=_by_prompt)) as running:
        yield running


async def test_each_prompt_has_n_choices_in_its_order(stack: GatewayStack) -> None:
    asked = {"prompt": ["ab", [ord("c")]], "n": 3, "seed": 11, "return_token_ids": True}
    answer = (await stack.complete(**asked)).json()
    choices = answer["choices"]
    assert [choice["index"] for choice in choices] == list(range(6))
    assert [choice["text"] for choice in choices] == ["ab0", "ab1", "ab2", "c3", "c4", "c5"]
    assert [choice["seed"] for choice in choices] == SEEDS
    assert [choice["prompt_token_ids"] for choice in choices[2:4]] == [[97, 98], [99]]
    assert {choice["finish_reason"] for choice in choices} == {"length"}
    assert answer["seed"] == 11
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 3 * 3 + 3 * 2)
    assert len({request.request_id for request in stack.scheduler.requests}) == 6


async def test_the_seed_of_a_choice_repeats_it_alone(stack: GatewayStack) -> None:
    whole = (await stack.complete(n=3, seed=11)).json()
    for choice in whole["choices"]:
        alone = (await stack.complete(seed=choice["seed"])).json()
        assert alone["choices"][0]["text"] == choice["text"]


async def test_an_unseeded_request_repeats_by_the_seed_in_its_reply(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path) as stack:
        first = (await stack.chat(n=2)).json()
        again = (await stack.chat(n=2, seed=first["seed"])).json()
        seeds = [choice["seed"] for answer in (first, again) for choice in answer["choices"]]
        assert seeds[:2] == seeds[2:] == [first["seed"], choice_seed(first["seed"], 1)]


@pytest.mark.parametrize("continuous", [False, True])
async def test_a_stream_interleaves_choices_and_ends_each_once(
    stack: GatewayStack, continuous: bool
) -> None:
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    reply = await stack.complete(
        prompt=["ab", "cd"], n=2, seed=11, stream=True, stream_options=options
    )
    *events, usage, done = sse_events(reply.text)
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["prompt_tokens"] == 4
    assert usage["usage"]["completion_tokens"] == 12
    texts: Counter[int] = Counter()
    parts = dict.fromkeys(range(4), "")
    for event in events:
        (choice,) = event["choices"]
        parts[choice["index"]] += choice["text"]
        texts[choice["index"]] += choice["finish_reason"] is not None
    assert parts == {0: "ab0", 1: "ab1", 2: "cd2", 3: "cd3"}
    assert texts == dict.fromkeys(range(4), 1)
    assert len({event["id"] for event in events}) == 1
    running = [event["usage"] for event in events]
    if continuous:
        counts = [each["completion_tokens"] for each in running]
        assert counts == sorted(counts)
        assert (counts[0], counts[-1]) == (1, 12)
    else:
        assert running == [None] * len(events)


async def test_each_choice_of_a_chat_opens_with_its_role(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("hi"))
    events = sse_events((await stack.chat(n=3, stream=True)).text)[:-1]
    for index in range(3):
        deltas = [e["choices"][0]["delta"] for e in events if e["choices"][0]["index"] == index]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert "".join(delta.get("content", "") for delta in deltas) == "hi"


async def test_other_choices_begin_when_the_prompt_of_the_first_is_computed(
    stack: GatewayStack,
) -> None:
    prefilled = asyncio.Event()

    def first_waits(request: pb.SchedulerServiceGenerateRequest) -> Script:
        is_first = request.sampling.seed == SEEDS[0]
        return Script(runs_of("x"), start_delay_s=0.2 if is_first and not prefilled.is_set() else 0)

    stack.scheduler.script = first_waits
    answer = asyncio.create_task(stack.complete(n=3, seed=11))
    while not stack.scheduler.requests:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert [request.sampling.seed for request in stack.scheduler.requests] == SEEDS[:1]
    assert stack.scheduler.num_sent == 0
    assert (await answer).status_code == 200
    assert len(stack.scheduler.requests) == 3


async def test_without_a_cache_to_share_all_begin_at_once(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("x"), hang=True)
    answer = asyncio.create_task(stack.complete(n=3, use_prefix_cache=False))
    async with asyncio.timeout(5):
        while len(stack.scheduler.requests) < 3:
            await asyncio.sleep(0.005)
    answer.cancel()
    assert await stack.scheduler.wait_cancelled(5.0, count=3)


def _third(script: Script) -> Callable[[pb.SchedulerServiceGenerateRequest], Script]:
    rest = Script(runs_of("ab"), repeat=True, delay_s=0.01)
    return lambda request: script if request.sampling.seed == SEEDS[2] else rest


async def test_a_stream_that_breaks_ends_with_an_error_and_ends_all_choices(
    stack: GatewayStack,
) -> None:
    stack.scheduler.script = _third(Script(runs_of("c"), error=QueueFull("it is full")))
    reply = await stack.complete(n=3, seed=11, stream=True, max_tokens=100)
    *_, error, done = sse_events(reply.text)
    assert (error["error"]["message"], done) == ("it is full", "[DONE]")
    assert await stack.scheduler.wait_cancelled(5.0, count=2)
    whole = await stack.complete(n=3, seed=11, max_tokens=100)
    assert whole.status_code == 429
    assert stack.server.gateway.lifecycle.num_running == 0


async def test_hanging_up_cancels_all_choices(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("ab"), repeat=True, delay_s=0.01)
    body = {"prompt": ["a", "b"], "n": 2, "stream": True, "max_tokens": 100}
    async with stack.client.stream("POST", "/v1/completions", json=body) as reply:
        async for _ in reply.aiter_lines():
            if len(stack.scheduler.requests) == 4:
                break
    assert await stack.scheduler.wait_cancelled(5.0, count=4)
    assert stack.scheduler.finished == []


async def test_too_many_choices_are_refused_before_anything_runs(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, max_choices=4) as stack:
        for fields, param in (
            ({"n": 5}, "n"),
            ({"prompt": ["a"] * 3, "n": 2}, "n"),
            ({"prompt": ["a"] * 5}, "prompt"),
            ({"n": 0}, "n"),
        ):
            reply = await stack.complete(**fields)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        assert stack.scheduler.requests == []
        bad = await stack.complete(prompt=["a", [70000]])
        assert bad.json()["error"]["param"] == "prompt[1]"


async def test_openais_client_reads_them(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("hi"))
    async with stack.openai() as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        answer = await client.chat.completions.create(model=MODEL, messages=messages, n=3)
        assert [choice.message.content for choice in answer.choices] == ["hi"] * 3
        stream = await client.completions.create(model=MODEL, prompt=["a", "b"], stream=True)
        texts: Counter[int] = Counter()
        async for event in stream:
            texts[event.choices[0].index] += len(event.choices[0].text)
        assert texts == {0: 2, 1: 2}


async def test_the_sdk_gets_completions_with_seeds_of_their_own(stack: GatewayStack) -> None:
    async with AsyncClient(stack.grpc_target) as client:
        choices = await client.generate_choices("ab", 3, seed=11)
        assert [choice.text for choice in choices] == ["ab0", "ab1", "ab2"]
        assert [choice.seed for choice in choices] == SEEDS[:3]
        assert [choice.usage.completion_tokens for choice in choices] == [3, 3, 3]
        for n in (0, -1, 1.5, 2**32, True):
            with pytest.raises(InvalidArgument, match="n:"):
                await client.generate_choices("ab", n)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="at most 128"):
            await client.generate_choices("ab", 10**6)
