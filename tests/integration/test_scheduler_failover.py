"""Two verifiers: when one is lost its requests go on at the other, with the very same tokens."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dspark.errors import BackendUnavailable
from dspark.sampling import SamplingParams
from dspark.scheduler import server, worker
from dspark.scheduler.verifier_link import VerifierLost
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier, StepFault
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, Streamed, make_request, running_scheduler
from harness.scripted_drafters import KnownText
from harness.waiting import until

MODEL = HashModel()
NUM_REQUESTS = 6
NUM_TOKENS = 60


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple(range(index, index + 5))


def params_of(index: int) -> SamplingParams:
    return SamplingParams(temperature=0.9, seed=index, max_tokens=NUM_TOKENS, ignore_eos=True)


def wanted(index: int) -> tuple[int, ...]:
    return MODEL.generate(prompt_of(index), params_of(index)).token_ids


@dataclass
class Pair:
    """Two verifiers and a scheduler of both."""

    first: FakeVerifier
    second: FakeVerifier
    scheduler: RunningScheduler

    def begin(self) -> list[asyncio.Task[Streamed]]:
        return [
            asyncio.create_task(
                self.scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
            )
            for i in range(NUM_REQUESTS)
        ]

    async def both_run(self) -> None:
        await until(lambda: bool(self.first.sequences) and bool(self.second.sequences))
        steps = len(self.first.plans)
        await until(lambda: len(self.first.plans) > steps + 3)


@asynccontextmanager
async def pair(
    first: FakeVerifier, second: FakeVerifier, *, wait_for: int = 2, **settings: Any
) -> AsyncIterator[Pair]:
    drafters = {
        f"r{i}": KnownText([*prompt_of(i), *wanted(i)], MODEL.vocab_size).alternating
        for i in range(NUM_REQUESTS)
    }
    settings = {"failover_s": 0.1, **settings}
    async with AsyncExitStack() as stack:
        for verifier in (first, second):
            await stack.enter_async_context(verifier)
        candidates = await stack.enter_async_context(FakeCandidates(drafters))
        targets = (first.target, second.target)
        scheduler = await stack.enter_async_context(
            running_scheduler(targets, candidates.target, **settings)
        )
        pool = scheduler.server.scheduler.pool
        await until(lambda: sum(w.is_serving for w in pool.workers) == wait_for)
        yield Pair(first, second, scheduler)


def slow(rows: int) -> float:
    return 0.005


def check(streams: list[Streamed]) -> None:
    assert [tuple(s.token_ids) for s in streams] == [wanted(i) for i in range(NUM_REQUESTS)]
    assert all(s.usage.completion_tokens == NUM_TOKENS for s in streams)


async def gather(tasks: list[asyncio.Task[Streamed]]) -> list[Streamed]:
    async with asyncio.timeout(30):
        return await asyncio.gather(*tasks)


async def test_requests_are_spread_over_the_verifiers() -> None:
    async with pair(FakeVerifier(forward_s=slow), FakeVerifier(forward_s=slow)) as both:
        tasks = both.begin()
        await both.both_run()
        running = [len(v.sequences) for v in (both.first, both.second)]
        assert running == [NUM_REQUESTS // 2] * 2
        check(await gather(tasks))
    assert both.first.sequences == both.second.sequences == {}


async def test_requests_of_a_lost_verifier_go_on_at_the_other() -> None:
    async with pair(FakeVerifier(forward_s=slow), FakeVerifier(forward_s=slow)) as both:
        tasks = both.begin()
        await both.both_run()
        await both.first.stop()
        check(await gather(tasks))
        totals = both.scheduler.server.scheduler.totals
        assert totals.generation_tokens == NUM_TOKENS * NUM_REQUESTS
        await until(lambda: both.second.sequences == {})
        assert await both.scheduler.client.is_ready()


async def test_a_verifier_that_hangs_is_left_and_frees_all_when_it_comes_back() -> None:
    costs = ((1, 1.0), (512, 5.0))
    hanging = FakeVerifier(forward_s=slow, costs=costs)
    async with pair(hanging, FakeVerifier(forward_s=slow, costs=costs)) as both:
        tasks = both.begin()
        await both.both_run()
        hanging.hold = asyncio.Event()
        check(await gather(tasks))
        hanging.hold.set()
        hanging.hold = None
        await until(lambda: hanging.sequences == {} and both.second.sequences == {})
        again = both.begin()
        check(await gather(again))


async def test_verifiers_that_are_both_slower_than_measured_go_on() -> None:
    costs = ((1, 1.0), (512, 5.0))
    verifiers = (FakeVerifier(forward_s=lambda rows: 0.2, costs=costs) for _ in range(2))
    async with pair(*verifiers, failover_s=0.05) as both:
        request = make_request("r0", prompt_of(0), params_of(0))
        async with asyncio.timeout(60):
            streamed = await both.scheduler.client.generate(request)
        assert tuple(streamed.token_ids) == wanted(0)


async def test_a_verifier_that_drains_is_left_at_once() -> None:
    draining = FakeVerifier(forward_s=slow)
    async with pair(draining, FakeVerifier(forward_s=slow), failover_s=60.0) as both:
        tasks = both.begin()
        await both.both_run()
        started = time.monotonic()
        draining.faults = deque([StepFault.DRAIN] * 1000)
        check(await gather(tasks))
        assert time.monotonic() - started < 30


async def test_requests_never_move_to_other_weights() -> None:
    other = FakeVerifier(forward_s=slow, digest="other")
    async with pair(FakeVerifier(forward_s=slow), other, verifier_timeout_s=0.3) as both:
        tasks = both.begin()
        await both.both_run()
        moved = set(both.first.sequences)
        await both.first.stop()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failed = {f"r{i}" for i, r in enumerate(results) if isinstance(r, BackendUnavailable)}
        assert failed == moved


async def test_an_idle_verifier_that_goes_gets_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PROBE_INTERVAL_S", 0.05)
    async with pair(FakeVerifier(), FakeVerifier()) as both:
        await both.first.stop()
        workers = both.scheduler.server.scheduler.pool.workers
        await until(lambda: [w.is_serving for w in workers] == [False, True])
        check(await gather(both.begin()))
        assert both.first.plans == []
        await both.first.start(both.first.target)
        await until(lambda: all(w.is_serving for w in workers))


async def test_one_that_comes_back_with_other_weights_is_described_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "PROBE_INTERVAL_S", 0.05)
    async with pair(FakeVerifier(), FakeVerifier()) as both:
        workers = both.scheduler.server.scheduler.pool.workers
        await both.first.stop()
        await until(lambda: not workers[0].is_serving)
        async with FakeVerifier(digest="new") as new:
            await new.stop()
            await new.start(both.first.target)
            await until(lambda: workers[0].is_serving)
            assert workers[0].verifier.info.model_digest == "new"


async def test_what_another_scheduler_left_on_a_verifier_is_replaced() -> None:
    async with FakeVerifier() as verifier, running_scheduler(verifier.target) as left:
        verifier.hold = asyncio.Event()
        request = make_request("r0", prompt_of(0), params_of(0))
        abandoned = asyncio.create_task(left.client.generate(request))
        await until(lambda: bool(verifier.sequences))
        orphan = verifier.sequences["r0"]
        orphan.epoch += 100_000
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        verifier.hold.set()
        async with running_scheduler(verifier.target) as heir, asyncio.timeout(10):
            streamed = await heir.client.generate(request)
        assert tuple(streamed.token_ids) == wanted(0)
        assert verifier.sequences == {}


async def test_a_lost_verifier_that_no_address_names_any_more_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    async def follow(first: tuple[str, ...]) -> AsyncIterator[tuple[str, ...]]:
        yield first
        while True:
            yield await addresses.get()

    monkeypatch.setattr(server, "watch_addresses", follow)
    async with pair(FakeVerifier(forward_s=slow), FakeVerifier(forward_s=slow)) as both:
        tasks = both.begin()
        await both.both_run()
        await both.first.stop()
        check(await gather(tasks))
        addresses.put_nowait((both.second.target,))
        scheduler = both.scheduler.server.scheduler
        await until(lambda: [w.name for w in scheduler.pool.workers] == [both.second.target])
        assert scheduler.status.num_blocks == both.second.num_blocks


async def test_a_verifier_that_was_given_up_gets_no_request_before_it_ends_a_step() -> None:
    costs = ((1, 1.0), (512, 5.0))
    hanging = FakeVerifier(forward_s=slow, costs=costs)
    async with pair(hanging, FakeVerifier(forward_s=slow, costs=costs)) as both:
        tasks = both.begin()
        await both.both_run()
        hanging.hold = asyncio.Event()
        check(await gather(tasks))
        num_plans = len(hanging.plans)
        check(await gather(both.begin()))
        assert not any(plan.work for plan in hanging.plans[num_plans:])
        workers = both.scheduler.server.scheduler.pool.workers
        assert [w.is_serving for w in workers] == [False, True]
        hanging.hold.set()
        hanging.hold = None
        await until(lambda: all(w.is_serving for w in workers))


async def test_only_the_arithmetic_that_began_a_request_goes_on_with_it() -> None:
    async with FakeVerifier() as verifier, FakeVerifier(digest="other") as other:
        async with running_scheduler((other.target, verifier.target)) as scheduler:
            workers = scheduler.server.scheduler.pool.workers
            await until(lambda: all(w.is_serving for w in workers))
            text = wanted(0)
            rest = {"committed_token_ids": text[:9], "arithmetic": verifier_arithmetic(verifier)}
            request = make_request("r0", prompt_of(0), params_of(0), **rest)
            streamed = await scheduler.client.generate(request)
            assert tuple(streamed.token_ids) == text[9:]
            assert verifier.plans and not other.plans
            request.arithmetic = "unknown"
            with pytest.raises(BackendUnavailable):
                await scheduler.client.generate(request)


async def test_a_stream_begins_with_its_arithmetic() -> None:
    async with FakeVerifier() as verifier, running_scheduler(verifier.target) as scheduler:
        request = make_request("r0", prompt_of(0), params_of(0))
        events = [event async for event in scheduler.client.stub.Generate(request)]
    first, *others = (event.chunk.arithmetic for event in events[:-1])
    assert first == verifier_arithmetic(verifier)
    assert not any(others)


def verifier_arithmetic(verifier: FakeVerifier) -> str:
    return "/".join(map(str, verifier.info.arithmetic))


async def test_requests_leave_a_worker_that_fails_in_an_unforeseen_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "FAILURE_PAUSE_S", 0.05)
    async with pair(FakeVerifier(forward_s=slow), FakeVerifier(forward_s=slow)) as both:
        failing = both.scheduler.server.scheduler.pool.workers[0]
        tasks = both.begin()
        await both.both_run()
        loop = failing._loops[0]
        monkeypatch.setattr(loop._runner, "step", None)
        monkeypatch.setattr(loop, "_refused", None)
        check(await gather(tasks))
        await until(lambda: failing.is_serving and failing._loops[0] is not loop)
        check(await gather(both.begin()))


async def test_a_worker_ends_also_if_its_verifier_is_lost_at_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeVerifier() as verifier, running_scheduler(verifier.target) as scheduler:
        pool = scheduler.server.scheduler.pool
        loop = pool.workers[0]._loops[0]
        begun = asyncio.Event()

        async def step() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise VerifierLost("at that very moment") from None

        monkeypatch.setattr(loop._runner, "step", step)
        request = make_request("r0", prompt_of(0), params_of(0))
        running = asyncio.create_task(scheduler.client.generate(request))
        await begun.wait()
        async with asyncio.timeout(10):
            await pool.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert pool.workers == ()
