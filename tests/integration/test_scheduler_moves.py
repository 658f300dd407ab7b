"""Requests move between live verifiers, with the very same tokens, none twice and none missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dspark.errors import InvalidArgument
from dspark.sampling import SamplingParams
from dspark.scheduler import balancer, rebalance, server
from dspark.scheduler.moves import MoveReason, MoveWay
from dspark.scheduler.worker import Worker
from dspark.v1 import scheduler_service_pb2 as pb
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, Streamed, make_request, running_scheduler
from harness.scripted_drafters import KnownText
from harness.waiting import until

MODEL = HashModel()
NUM_REQUESTS = 6
NUM_TOKENS = 80
STEP_S, ROW_S = 0.003, 0.0003


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "TICK_S", 0.02)
    monkeypatch.setattr(rebalance, "MIN_SAVED_MS", 5.0)


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple(range(index, index + 9))


def params_of(index: int) -> SamplingParams:
    """Half of them greedy, half drawn."""
    temperature = 0.9 if index % 2 else 0.0
    return SamplingParams(
        temperature=temperature, seed=index, max_tokens=NUM_TOKENS, ignore_eos=True
    )


def wanted(index: int) -> tuple[int, ...]:
    return MODEL.generate(prompt_of(index), params_of(index)).token_ids


@dataclass
class Fleet:
    """A scheduler and its verifiers."""

    verifiers: tuple[FakeVerifier, ...]
    running: RunningScheduler

    def begin(self, count: int = NUM_REQUESTS) -> list[asyncio.Task[Streamed]]:
        requests = (make_request(f"r{i}", prompt_of(i), params_of(i)) for i in range(count))
        return [asyncio.create_task(self.running.client.generate(r)) for r in requests]

    def worker(self, index: int) -> Worker:
        target = self.verifiers[index].target
        workers = self.running.server.scheduler.pool.workers
        return next(worker for worker in workers if worker.name == target)

    @property
    def moves(self) -> dict[tuple[MoveReason, MoveWay], int]:
        return dict(self.running.server.scheduler.books.moves)

    async def drain(self, index: int, *, resume: bool = False) -> int:
        request = pb.DrainWorkerRequest(worker=self.verifiers[index].target, resume=resume)
        return (await self.running.client.stub.DrainWorker(request)).num_requests

    async def check(self, tasks: list[asyncio.Task[Streamed]]) -> None:
        """All streams are whole, and nothing is left on a verifier."""
        async with asyncio.timeout(60):
            streams = await asyncio.gather(*tasks)
        for index, streamed in enumerate(streams):
            assert tuple(streamed.token_ids) == wanted(index)
            assert streamed.usage.completion_tokens == NUM_TOKENS
        totals = self.running.server.scheduler.totals
        assert totals.generation_tokens == NUM_TOKENS * len(tasks)
        await until(lambda: all(not v.sequences for v in self.verifiers))
        assert all(v.num_free_blocks == v.num_blocks for v in self.verifiers)


@asynccontextmanager
async def fleet(*verifiers: FakeVerifier, **settings: Any) -> AsyncIterator[Fleet]:
    drafters = {
        f"r{i}": KnownText([*prompt_of(i), *wanted(i)], MODEL.vocab_size).alternating
        for i in range(NUM_REQUESTS)
    }
    async with AsyncExitStack() as stack:
        for verifier in verifiers:
            await stack.enter_async_context(verifier)
        candidates = await stack.enter_async_context(FakeCandidates(drafters))
        targets = [verifier.target for verifier in verifiers]
        running = await stack.enter_async_context(
            running_scheduler(targets, candidates.target, **settings)
        )
        pool = running.server.scheduler.pool
        await until(lambda: sum(w.is_serving for w in pool.workers) == len(verifiers))
        yield Fleet(verifiers, running)


def slow(factor: float = 1.0, **fields: Any) -> FakeVerifier:
    """A verifier whose passes take their time, as its costs say."""

    def forward_s(rows: int) -> float:
        return factor * (STEP_S + ROW_S * rows)

    costs = tuple((rows, 1e3 * forward_s(rows)) for rows in (1, 512))
    return FakeVerifier(forward_s=forward_s, costs=costs, **fields)


async def test_requests_of_a_drained_verifier_go_on_at_the_other() -> None:
    async with fleet(slow(), slow(), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: all(len(v.sequences) == NUM_REQUESTS // 2 for v in both.verifiers))
        await until(lambda: len(both.verifiers[0].plans) > 5)
        assert await both.drain(0) == NUM_REQUESTS // 2
        await until(lambda: not both.verifiers[0].sequences)
        num_plans = len(both.verifiers[0].plans)
        await both.check(tasks)
        assert not any(plan.work for plan in both.verifiers[0].plans[num_plans:])
        assert both.moves == {(MoveReason.DRAIN, MoveWay.RECOMPUTE): NUM_REQUESTS // 2}


async def test_nothing_that_was_computed_gets_lost_by_a_move() -> None:
    async with fleet(slow(), slow(), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: all(len(v.plans) > 5 for v in both.verifiers))
        await both.drain(0)
        await both.check(tasks)
        assert both.running.server.scheduler.totals.num_discarded_tokens == 0


async def test_a_drained_verifier_gets_no_request_before_it_is_resumed() -> None:
    async with fleet(slow(), slow(), rebalance=False) as both:
        await both.drain(0)
        await both.check(both.begin())
        assert not any(plan.work for plan in both.verifiers[0].plans)
        assert await both.drain(0, resume=True) == 0
        tasks = both.begin()
        await until(lambda: bool(both.verifiers[0].sequences))
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)


async def test_only_a_known_verifier_can_be_drained() -> None:
    async with fleet(slow()) as one:
        with pytest.raises(InvalidArgument, match="worker: 'elsewhere' is no verifier here"):
            one.running.server.scheduler.drain_worker("elsewhere")


async def test_a_drained_verifier_without_another_goes_on() -> None:
    async with fleet(slow()) as one:
        tasks = one.begin()
        await until(lambda: len(one.verifiers[0].sequences) == NUM_REQUESTS)
        assert await one.drain(0) == NUM_REQUESTS
        await one.check(tasks)


async def test_a_drained_verifier_keeps_what_no_other_computes_alike() -> None:
    async with fleet(slow(), slow(digest="other")) as both:
        tasks = both.begin(2)
        await until(lambda: all(v.sequences for v in both.verifiers))
        await both.drain(0)
        async with asyncio.timeout(60):
            streams = await asyncio.gather(*tasks)
        assert [tuple(s.token_ids) for s in streams] == [wanted(0), wanted(1)]
        assert both.moves == {}


async def test_requests_leave_a_verifier_that_says_that_it_ends() -> None:
    async with fleet(slow(), slow(), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: all(len(v.plans) > 5 for v in both.verifiers))
        both.verifiers[0].is_ending = True
        await until(lambda: not both.verifiers[0].sequences)
        await both.check(tasks)
        assert both.moves == {(MoveReason.DRAIN, MoveWay.RECOMPUTE): NUM_REQUESTS // 2}


async def test_requests_leave_a_verifier_that_no_address_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    async def follow(first: tuple[str, ...]) -> AsyncIterator[tuple[str, ...]]:
        yield first
        while True:
            yield await addresses.get()

    monkeypatch.setattr(server, "watch_addresses", follow)
    async with fleet(slow(), slow(), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: all(len(v.plans) > 5 for v in both.verifiers))
        addresses.put_nowait((both.verifiers[1].target,))
        await both.check(tasks)
        pool = both.running.server.scheduler.pool
        await until(lambda: [w.name for w in pool.workers] == [both.verifiers[1].target])


async def test_running_requests_move_to_a_verifier_that_comes_later() -> None:
    late = slow()
    async with fleet(slow(), late, rebalance=True) as both:
        await both.drain(1)
        tasks = both.begin()
        await until(lambda: len(both.verifiers[0].plans) > 3)
        await both.drain(1, resume=True)
        await until(lambda: bool(late.sequences))
        await both.check(tasks)
        assert both.moves[MoveReason.BALANCE, MoveWay.RECOMPUTE] >= 1


async def test_requests_that_wait_move_where_there_is_a_place() -> None:
    async with fleet(slow(), slow(), max_num_seqs=2) as both:
        await both.drain(1)
        tasks = both.begin()
        await until(lambda: bool(both.verifiers[0].sequences))
        await both.drain(1, resume=True)
        await both.check(tasks)
        assert max(len(plan.work) for plan in both.verifiers[1].plans) == 2


async def test_a_request_that_is_cancelled_while_it_moves_leaves_nothing() -> None:
    async with fleet(slow(4), slow(4), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: all(len(v.plans) > 2 for v in both.verifiers))
        await both.drain(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: all(not v.sequences for v in both.verifiers))
        status = both.running.server.scheduler.status
        assert status.num_running == status.num_waiting == 0


async def test_the_slow_verifier_of_two_gets_the_smaller_share() -> None:
    async with fleet(slow(), slow(4), rebalance=False) as both:
        tasks = both.begin()
        await until(lambda: len(both.verifiers[0].plans) > 3)
        fast, throttled = (len(v.sequences) for v in both.verifiers)
        assert fast > throttled
        await both.check(tasks)


async def test_steps_of_a_slow_verifier_are_as_short_as_those_of_the_fast_one() -> None:
    async with fleet(slow(), slow(8), rebalance=False, max_num_seqs=8) as both:
        await both.drain(0)
        throttled = both.verifiers[1]
        longest_s = both.verifiers[0].forward_s(512)
        await asyncio.sleep(5 * balancer.TICK_S)
        prompt = [i % 60 for i in range(400)]
        sampling = SamplingParams(max_tokens=4, ignore_eos=True)
        await both.running.client.generate(make_request("long", prompt, sampling))
        rows = [sum(work.max_pending_rows for work in plan.work) for plan in throttled.plans]
        assert 1 < max(rows) < 400
        assert throttled.forward_s(max(rows)) <= 1.2 * longest_s
