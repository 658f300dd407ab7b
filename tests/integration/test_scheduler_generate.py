"""Requests over real sockets: the stream, its end, and what is refused before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dspark.errors import ContextLength, DuplicateRequest, InvalidArgument, NotReady, QueueFull
from dspark.sampling import FinishReason, SamplingParams, SpeculationParams
from dspark.v1 import scheduler_service_pb2 as pb
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import make_request, running_scheduler
from harness.waiting import until

MODEL = HashModel(max_model_len=64)
PROMPT = tuple(range(10))


def sampling(max_tokens: int = 20, **fields: Any) -> SamplingParams:
    fields = {"temperature": 0.0, "ignore_eos": True, **fields}
    return SamplingParams(max_tokens=max_tokens, **fields)


@pytest.fixture
async def verifier() -> AsyncIterator[FakeVerifier]:
    async with FakeVerifier(model=MODEL) as fake:
        yield fake


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 40])
async def test_the_stream_has_the_models_tokens_and_one_end(
    verifier: FakeVerifier, max_tokens: int
) -> None:
    params = sampling(max_tokens)
    async with running_scheduler(verifier.target) as scheduler:
        streamed = await scheduler.client.generate(make_request("r", PROMPT, params))
    assert tuple(streamed.token_ids) == MODEL.generate(PROMPT, params).token_ids
    assert streamed.finish_reason is FinishReason.LENGTH and streamed.stop_token_id is None
    assert streamed.usage.prompt_tokens == 10 and streamed.usage.completion_tokens == max_tokens
    assert streamed.speculation.rounds == max_tokens and streamed.speculation.drafted == 0
    assert verifier.sequences == {}


async def test_stop_tokens_end_the_stream_and_are_named(verifier: FakeVerifier) -> None:
    plain = MODEL.generate(PROMPT, sampling(40)).token_ids
    stop = plain[7]
    params = sampling(40, stop_token_ids=frozenset({stop}))
    async with running_scheduler(verifier.target) as scheduler:
        streamed = await scheduler.client.generate(make_request("r", PROMPT, params))
    want = MODEL.generate(PROMPT, params)
    assert tuple(streamed.token_ids) == want.token_ids == plain[: plain.index(stop) + 1]
    assert streamed.finish_reason is FinishReason.STOP and streamed.stop_token_id == stop


async def test_requests_share_steps_and_disturb_nobody(verifier: FakeVerifier) -> None:
    requests = {
        f"r{i}": (tuple(range(i, 2 * i + 1)), sampling(5 + i, temperature=1.0, seed=i))
        for i in range(12)
    }
    async with running_scheduler(verifier.target, max_num_batched_tokens=16) as scheduler:
        streams = await asyncio.gather(
            *(scheduler.client.generate(make_request(i, *r)) for i, r in requests.items())
        )
    for (prompt, params), streamed in zip(requests.values(), streams, strict=True):
        assert tuple(streamed.token_ids) == MODEL.generate(prompt, params).token_ids
    assert max(len(plan.work) for plan in verifier.plans) > 4
    assert all(sum(w.max_pending_rows for w in plan.work) <= 16 for plan in verifier.plans)


async def test_a_resumed_request_streams_only_what_is_new(verifier: FakeVerifier) -> None:
    params = sampling(20)
    whole = MODEL.generate(PROMPT, params).token_ids
    async with running_scheduler(verifier.target) as scheduler:
        for committed in (whole[:1], whole[:13], whole[:19], whole):
            request = make_request("r", PROMPT, params, committed_token_ids=committed)
            streamed = await scheduler.client.generate(request)
            assert (*committed, *streamed.token_ids) == whole
            assert streamed.finish_reason is FinishReason.LENGTH
            assert streamed.usage.prompt_tokens == 10 and streamed.usage.completion_tokens == 20


async def test_cached_prompt_tokens_are_counted_and_change_nothing(verifier: FakeVerifier) -> None:
    params = sampling(6)
    async with running_scheduler(verifier.target) as scheduler:
        cold = await scheduler.client.generate(make_request("a", PROMPT, params))
        warm = await scheduler.client.generate(make_request("b", PROMPT, params))
        salted = await scheduler.client.generate(
            make_request("c", PROMPT, params, cache_salt="tenant")
        )
        declined = await scheduler.client.generate(
            make_request("d", PROMPT, params, use_prefix_cache=False)
        )
        status = await scheduler.client.status()
    cached = [s.usage.cached_tokens for s in (cold, warm, salted, declined)]
    assert cached == [0, 8, 0, 0]
    assert status.cached_tokens == 8 and status.prompt_tokens == 40
    assert cold.token_ids == warm.token_ids == salted.token_ids == declined.token_ids


@pytest.mark.parametrize("length", [62, 63])
async def test_prompts_up_to_the_limit_are_served(verifier: FakeVerifier, length: int) -> None:
    async with running_scheduler(verifier.target) as scheduler:
        streamed = await scheduler.client.generate(make_request("r", (1,) * length, sampling(100)))
    assert len(streamed.token_ids) == 64 - length
    assert streamed.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("request_", "error", "field"),
    [
        (make_request("r", (1,) * 64, sampling()), ContextLength, "prompt"),
        (make_request("r", (1,) * 640, sampling()), ContextLength, "prompt"),
        (make_request("r", (), sampling()), InvalidArgument, "prompt_token_ids"),
        (make_request("r", (64,), sampling()), InvalidArgument, "prompt_token_ids"),
        (make_request("", (1,), sampling()), InvalidArgument, "request_id"),
        (make_request("r", (1,), sampling(top_p=2.0)), InvalidArgument, "top_p"),
        (
            pb.SchedulerServiceGenerateRequest(request_id="r", prompt_token_ids=[1]),
            InvalidArgument,
            "sampling.temperature",
        ),
    ],
)
async def test_what_can_never_be_served_is_refused_and_others_go_on(
    verifier: FakeVerifier,
    request_: pb.SchedulerServiceGenerateRequest,
    error: type[InvalidArgument],
    field: str,
) -> None:
    async with running_scheduler(verifier.target) as scheduler:
        other = asyncio.create_task(
            scheduler.client.generate(make_request("other", PROMPT, sampling(30)))
        )
        with pytest.raises(error) as caught:
            await scheduler.client.generate(request_)
        assert caught.value.metadata["field"] == field
        assert len((await other).token_ids) == 30
        again = await scheduler.client.generate(make_request("r", PROMPT, sampling(3)))
        assert len(again.token_ids) == 3


async def test_a_prompt_that_the_pool_cannot_hold_is_refused() -> None:
    async with FakeVerifier(model=MODEL, num_blocks=5, block_size=4) as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            with pytest.raises(ContextLength, match="KV pool"):
                await scheduler.client.generate(make_request("r", (1,) * 20, sampling()))
            fits = await scheduler.client.generate(make_request("r", (1,) * 19, sampling()))
    assert len(fits.token_ids) == 1


async def test_an_unknown_source_is_named(verifier: FakeVerifier) -> None:
    async with FakeCandidates() as candidates:
        async with running_scheduler(verifier.target, candidates.target) as scheduler:
            with pytest.raises(InvalidArgument) as caught:
                await scheduler.client.generate(
                    make_request("r", PROMPT, sampling(), SpeculationParams(sources=("medusa",)))
                )
    assert caught.value.metadata["field"] == "speculation.sources"


async def test_a_live_id_is_taken_until_its_request_ends(verifier: FakeVerifier) -> None:
    verifier.hold = asyncio.Event()
    async with running_scheduler(verifier.target) as scheduler:
        first = asyncio.create_task(
            scheduler.client.generate(make_request("r", PROMPT, sampling(3)))
        )
        await until(lambda: bool(verifier.plans))
        with pytest.raises(DuplicateRequest):
            await scheduler.client.generate(make_request("r", PROMPT, sampling(3)))
        verifier.hold.set()
        assert len((await first).token_ids) == 3
        assert len(
            (await scheduler.client.generate(make_request("r", PROMPT, sampling(3)))).token_ids
        )


async def test_a_full_queue_says_so_and_serves_what_it_holds(verifier: FakeVerifier) -> None:
    verifier.hold = asyncio.Event()
    async with running_scheduler(verifier.target, max_waiting=2, max_num_seqs=1) as scheduler:
        tasks = []
        for index in range(3):
            request = make_request(f"r{index}", PROMPT, sampling(3))
            tasks.append(asyncio.create_task(scheduler.client.generate(request)))
            status = scheduler.server.scheduler
            await until(
                lambda n=index, s=status: s.status.num_running + s.status.num_waiting == n + 1
            )
            await until(lambda: bool(verifier.plans))
        with pytest.raises(QueueFull):
            await scheduler.client.generate(make_request("r3", PROMPT, sampling(3)))
        verifier.hold.set()
        assert [len((await task).token_ids) for task in tasks] == [3, 3, 3]


async def test_urgent_requests_overtake_waiting_ones(verifier: FakeVerifier) -> None:
    verifier.hold = asyncio.Event()
    order: list[str] = []
    async with running_scheduler(verifier.target, max_num_seqs=1) as scheduler:

        def num_waiting() -> int:
            return scheduler.server.scheduler.status.num_waiting

        async def run(request_id: str, priority: int) -> None:
            request = make_request(request_id, PROMPT, sampling(2), priority=priority)
            await scheduler.client.generate(request)
            order.append(request_id)

        tasks = []
        for index, (request_id, priority) in enumerate([("a", 0), ("b", 0), ("c", 5), ("d", -5)]):
            tasks.append(asyncio.create_task(run(request_id, priority)))
            await until(lambda n=index: bool(verifier.plans) and num_waiting() == n)
        verifier.hold.set()
        await asyncio.gather(*tasks)
    assert order == ["a", "d", "b", "c"]


async def test_info_and_status_tell_what_is_served(verifier: FakeVerifier) -> None:
    async with FakeCandidates(sources=("suffix", "recycle")) as candidates:
        async with running_scheduler(verifier.target, candidates.target) as scheduler:
            info = await scheduler.client.info()
            await scheduler.client.generate(make_request("r", PROMPT, sampling(5)))
            status = await scheduler.client.status()
    assert (info.model_id, info.model_digest, info.vocab_size) == ("hash", "hash", 64)
    assert (info.max_model_len, info.max_pool_tokens) == (64, 1024)
    assert list(info.eos_token_ids) == [63] and list(info.sources) == ["suffix", "recycle"]
    assert (info.exactness, info.policy) == ("strict", "fixed")
    assert (status.num_running, status.num_waiting) == (0, 0)
    assert status.num_free_blocks == status.num_blocks == 256
    assert status.generation_tokens == 5 and status.num_steps >= 5


async def test_nothing_is_served_before_a_verifier_answers() -> None:
    async with FakeVerifier(model=MODEL, is_ready=False) as verifier:
        async with running_scheduler(verifier.target, wait_ready=False) as scheduler:
            with pytest.raises(NotReady):
                await scheduler.client.info()
            with pytest.raises(NotReady):
                await scheduler.client.generate(make_request("r", PROMPT, sampling()))
            assert not await scheduler.client.is_ready()
            verifier.is_ready = True
            await until(lambda: scheduler.server.scheduler.is_healthy)
            streamed = await scheduler.client.generate(make_request("r", PROMPT, sampling(3)))
    assert len(streamed.token_ids) == 3
