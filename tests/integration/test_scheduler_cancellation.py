"""A client that goes away stops its work everywhere, soon, at whatever point it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dspark.sampling import SamplingParams
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import (
    RunningScheduler,
    make_request,
    running_scheduler,
    until,
)

MODEL = HashModel(max_model_len=4096)
PARAMS = SamplingParams(temperature=0.0, max_tokens=2000, ignore_eos=True)
SHORT = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)
LONG_PROMPT = (3,) * 1500
LIMIT_S = 1.0


@pytest.fixture
async def verifier() -> AsyncIterator[FakeVerifier]:
    async with FakeVerifier(model=MODEL, num_blocks=2048, forward_s=lambda rows: 0.01) as fake:
        yield fake


@pytest.fixture
async def candidates() -> AsyncIterator[FakeCandidates]:
    async with FakeCandidates() as fake:
        yield fake


@pytest.fixture
async def scheduler(
    verifier: FakeVerifier, candidates: FakeCandidates
) -> AsyncIterator[RunningScheduler]:
    async with running_scheduler(
        verifier.target, candidates.target, max_num_seqs=2, max_num_batched_tokens=16
    ) as running:
        yield running


def is_empty(scheduler: RunningScheduler) -> bool:
    status = scheduler.server.scheduler.status
    return status.num_running + status.num_waiting == 0


async def gone(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    """Nothing is left of any request within the time."""
    status = scheduler.server.scheduler
    await until(
        lambda: not verifier.sequences and not candidates.sequences and is_empty(scheduler),
        LIMIT_S,
    )
    num_plans, num_tokens = len(verifier.plans), status.totals.generation_tokens
    await asyncio.sleep(0.1)
    assert len(verifier.plans) == num_plans, "the scheduler goes on stepping"
    assert status.totals.generation_tokens == num_tokens
    assert verifier.num_free_blocks == verifier.num_blocks


@pytest.mark.parametrize("point", ["prefill", "first token", "mid-stream", "unread"])
async def test_leaving_frees_everything(
    point: str,
    verifier: FakeVerifier,
    candidates: FakeCandidates,
    scheduler: RunningScheduler,
) -> None:
    prompt = LONG_PROMPT if point == "prefill" else (1, 2, 3)
    call = scheduler.client.stub.Generate(make_request("r", prompt, PARAMS))
    if point == "unread":
        await until(lambda: scheduler.server.scheduler.totals.generation_tokens > 20)
    elif point == "prefill":
        reading = asyncio.create_task(call.read())
        await until(lambda: len(verifier.plans) >= 3)
        reading.cancel()
    else:
        for _ in range(1 if point == "first token" else 10):
            await call.read()
    call.cancel()
    await gone(verifier, candidates, scheduler)
    assert [(r.request_id, r.completed) for r in candidates.releases] == [("r", False)]


async def test_leaving_the_queue_frees_the_place(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    running = [
        scheduler.client.stub.Generate(make_request(f"r{i}", (1, 2), PARAMS)) for i in range(2)
    ]
    for call in running:
        await call.read()
    queued = scheduler.client.stub.Generate(make_request("queued", (1, 2), PARAMS))
    reading = asyncio.create_task(queued.read())
    status = scheduler.server.scheduler
    await until(lambda: status.status.num_waiting == 1)
    queued.cancel()
    await until(lambda: status.status.num_waiting == 0, LIMIT_S)
    await asyncio.gather(reading, return_exceptions=True)
    assert all("queued" not in [a.request_id for a in p.admissions] for p in verifier.plans)
    for call in running:
        call.cancel()
    await gone(verifier, candidates, scheduler)


async def test_a_cancel_that_overtakes_its_request_leaves_nothing(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    for index in range(50):
        call = scheduler.client.stub.Generate(make_request(f"r{index}", (1, 2), PARAMS))
        if index % 2:
            await asyncio.sleep(0)
        call.cancel()
    streamed = await scheduler.client.generate(make_request("last", (1, 2), SHORT))
    assert tuple(streamed.token_ids) == MODEL.generate((1, 2), SHORT).token_ids
    await gone(verifier, candidates, scheduler)


async def test_leaving_while_a_step_is_under_way(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    verifier.hold = asyncio.Event()
    call = scheduler.client.stub.Generate(make_request("r", (1, 2), PARAMS))
    await until(lambda: bool(verifier.plans))
    call.cancel()
    await until(lambda: scheduler.server.scheduler.status.num_running == 0, LIMIT_S)
    again = asyncio.create_task(scheduler.client.generate(make_request("r", (1, 2), SHORT)))
    await asyncio.sleep(0.05)
    verifier.hold.set()
    assert tuple((await again).token_ids) == MODEL.generate((1, 2), SHORT).token_ids
    await gone(verifier, candidates, scheduler)


async def test_leaving_while_candidates_are_asked(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    call = scheduler.client.stub.Generate(make_request("r", (1, 2), PARAMS))
    await call.read()
    await until(lambda: candidates.num_proposes > 0)
    candidates.delay_s = 0.3
    await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.sleep(0.3)
    candidates.delay_s = 0.0
    await gone(verifier, candidates, scheduler)


async def test_the_same_id_may_come_back_at_once_and_often(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    for _ in range(5):
        call = scheduler.client.stub.Generate(make_request("r", (1, 2), PARAMS))
        await call.read()
        call.cancel()
        await until(lambda: is_empty(scheduler), LIMIT_S)
    streamed = await scheduler.client.generate(make_request("r", (1, 2), SHORT))
    assert tuple(streamed.token_ids) == MODEL.generate((1, 2), SHORT).token_ids
    await gone(verifier, candidates, scheduler)


async def test_neighbours_of_a_cancelled_request_get_their_tokens(
    verifier: FakeVerifier, candidates: FakeCandidates, scheduler: RunningScheduler
) -> None:
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=40, ignore_eos=True)
    neighbour = asyncio.create_task(scheduler.client.generate(make_request("n", (9, 9), params)))
    for index in range(5):
        call = scheduler.client.stub.Generate(make_request(f"r{index}", (1, 2), PARAMS))
        await call.read()
        call.cancel()
    assert tuple((await neighbour).token_ids) == MODEL.generate((9, 9), params).token_ids
    await gone(verifier, candidates, scheduler)
