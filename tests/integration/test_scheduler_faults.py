"""Faults on the edges to the verifier and to candidates: the same tokens, each exactly once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from dspark.errors import BackendUnavailable, InternalError, InvalidArgument
from dspark.sampling import SamplingParams
from dspark.step import StepOutcome, StepPlan
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier, StepFault
from harness.fault_proxy import Fault, FaultKind, FaultProxy
from harness.hash_model import HashModel
from harness.running_scheduler import (
    RunningScheduler,
    Streamed,
    make_request,
    running_scheduler,
    until,
)
from harness.scripted_drafters import Drafter, KnownText

MODEL = HashModel()
NUM_REQUESTS = 4


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple(range(index, index + 5))


def params_of(index: int) -> SamplingParams:
    return SamplingParams(temperature=0.9, seed=index, max_tokens=30, ignore_eos=True)


def wanted(index: int) -> tuple[int, ...]:
    return MODEL.generate(prompt_of(index), params_of(index)).token_ids


def drafters() -> dict[str, Drafter]:
    return {
        f"r{i}": KnownText([*prompt_of(i), *wanted(i)], MODEL.vocab_size).alternating
        for i in range(NUM_REQUESTS)
    }


async def run_all(scheduler: RunningScheduler) -> list[Streamed]:
    async with asyncio.timeout(40):
        return await asyncio.gather(
            *(
                scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
                for i in range(NUM_REQUESTS)
            )
        )


def check(streams: list[Streamed], verifier: FakeVerifier) -> None:
    assert [tuple(s.token_ids) for s in streams] == [wanted(i) for i in range(NUM_REQUESTS)]
    assert all(s.usage.completion_tokens == 30 for s in streams)
    assert verifier.sequences == {}


def spread(fault: Any, passing: Any, times: int = 4) -> deque[Any]:
    """The fault again and again, with calls that pass between."""
    return deque([passing, passing, fault] * times)


@pytest.mark.parametrize(
    "fault", [StepFault.REFUSE, StepFault.DROP_REPLY, StepFault.RESTART, StepFault.FORGET]
)
async def test_a_verifier_that_fails_or_forgets_is_continued_exactly(fault: StepFault) -> None:
    async with FakeVerifier(faults=spread(fault, StepFault.NONE)) as verifier:
        async with FakeCandidates(drafters()) as candidates:
            async with running_scheduler(verifier.target, candidates.target) as scheduler:
                streams = await run_all(scheduler)
                assert scheduler.server.scheduler.totals.generation_tokens == 30 * NUM_REQUESTS
    check(streams, verifier)
    assert not verifier.faults


@pytest.mark.parametrize("kind", [k for k in FaultKind if k is not FaultKind.PASS])
async def test_faults_on_the_way_to_the_verifier(kind: FaultKind) -> None:
    faults = spread(Fault(kind, "/Step", 0.05), Fault(FaultKind.PASS, "/Step"))
    async with FakeVerifier() as verifier, FakeCandidates(drafters()) as candidates:
        async with FaultProxy(verifier.target, faults) as proxy:
            async with running_scheduler(
                proxy.target, candidates.target, step_timeout_s=0.5
            ) as scheduler:
                streams = await run_all(scheduler)
    check(streams, verifier)
    assert ("Step", kind) in proxy.calls
    assert bool(proxy.num_late) is (kind is FaultKind.REORDER)


@pytest.mark.parametrize("kind", [k for k in FaultKind if k is not FaultKind.PASS])
async def test_faults_on_the_way_to_candidates(kind: FaultKind) -> None:
    faults = deque([Fault(FaultKind.PASS, "/Propose"), Fault(kind, "/Propose", 0.05)] * 3)
    faults += [Fault(kind, "/Observe", 0.05)] * 2
    async with FakeVerifier() as verifier, FakeCandidates(drafters()) as candidates:
        async with FaultProxy(candidates.target, faults) as proxy:
            async with running_scheduler(
                verifier.target,
                proxy.target,
                propose_deadline_ms=100.0,
                breaker_failures=3,
                breaker_open_s=0.05,
            ) as scheduler:
                streams = await run_all(scheduler)
    check(streams, verifier)
    assert ("Observe", kind) in proxy.calls


@pytest.mark.parametrize("kind", [FaultKind.DELAY, FaultKind.DUPLICATE, FaultKind.CANCEL])
async def test_faults_on_the_way_from_the_gateway(kind: FaultKind) -> None:
    async with FakeVerifier() as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            async with FaultProxy(
                scheduler.target, deque([Fault(kind, "/Generate", 0.05)])
            ) as proxy:
                client = type(scheduler.client)(proxy.target)
                request = make_request("r0", prompt_of(0), params_of(0))
                if kind is FaultKind.CANCEL:
                    with pytest.raises(BackendUnavailable):
                        await client.generate(request)
                else:
                    assert tuple((await client.generate(request)).token_ids) == wanted(0)
                await until(lambda: not verifier.sequences, 1.0)
                again = await client.generate(request)
                await client.channel.close()
    assert tuple(again.token_ids) == wanted(0)


async def test_a_verifier_process_that_is_replaced_is_continued(tmp_path: Any) -> None:
    address = f"unix:{tmp_path}/verifier.sock"
    first = await FakeVerifier(forward_s=lambda rows: 0.005).start(address)
    async with running_scheduler(address) as scheduler:
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: len(first.plans) > 8)
        await first.stop()
        await asyncio.sleep(0.3)
        assert not running.done()
        async with FakeVerifier() as second:
            await second.stop()
            await second.start(address)
            streams = await running
            check(streams, second)


async def test_a_verifier_that_returns_as_another_model_ends_its_requests() -> None:
    async with FakeVerifier(forward_s=lambda rows: 0.005) as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            running = asyncio.create_task(
                scheduler.client.generate(make_request("r", (1, 2), params_of(0)))
            )
            await until(lambda: len(verifier.plans) > 4)
            verifier.digest = "other"
            verifier.faults.append(StepFault.RESTART)
            with pytest.raises(BackendUnavailable, match="another model"):
                await running
            await until(lambda: scheduler.server.scheduler.is_healthy)
            assert (await scheduler.client.info()).model_digest == "other"
            streamed = await scheduler.client.generate(
                make_request("r", prompt_of(0), params_of(0))
            )
    assert tuple(streamed.token_ids) == wanted(0)


async def test_requests_of_a_verifier_that_stays_away_end_and_health_says_so() -> None:
    async with FakeVerifier() as verifier:
        async with running_scheduler(
            verifier.target, verifier_timeout_s=0.5, stall_s=0.2
        ) as scheduler:
            verifier.faults.extend([StepFault.REFUSE] * 1000)
            tasks = [
                asyncio.create_task(
                    scheduler.client.generate(make_request(f"r{i}", (1, 2), params_of(i)))
                )
                for i in range(3)
            ]
            await until(lambda: not scheduler.server.scheduler.is_healthy)
            for task in tasks:
                with pytest.raises(BackendUnavailable, match="verifier"):
                    await task
            verifier.is_ready = False
            with pytest.raises(BackendUnavailable, match="verifier"):
                await scheduler.client.generate(make_request("r", (1, 2), params_of(0)))
            verifier.faults.clear()
            verifier.is_ready = True
            await until(lambda: scheduler.server.scheduler.is_healthy)
            streamed = await scheduler.client.generate(
                make_request("r0", prompt_of(0), params_of(0))
            )
    assert tuple(streamed.token_ids) == wanted(0)


async def test_a_bug_that_passes_is_survived_and_one_that_stays_ends_the_requests() -> None:
    async with FakeVerifier() as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            verifier.faults.extend([StepFault.NONE, StepFault.BUG, StepFault.NONE, StepFault.BUG])
            streamed = await scheduler.client.generate(
                make_request("r0", prompt_of(0), params_of(0))
            )
            assert tuple(streamed.token_ids) == wanted(0)
            verifier.faults.extend([StepFault.BUG] * 3)
            with pytest.raises(InternalError):
                await scheduler.client.generate(make_request("r1", prompt_of(1), params_of(1)))
            again = await scheduler.client.generate(make_request("r1", prompt_of(1), params_of(1)))
    assert tuple(again.token_ids) == wanted(1)
    assert verifier.sequences == {}


async def test_one_request_that_the_verifier_refuses_does_not_take_others_with_it() -> None:
    async with FakeVerifier() as verifier:
        stepping = verifier.step

        async def step(plan: StepPlan) -> StepOutcome:
            if any(work.request_id == "r2" for work in plan.work):
                raise InvalidArgument("work", "scripted refusal of r2")
            return await stepping(plan)

        verifier.step = step  # type: ignore[method-assign]
        async with running_scheduler(verifier.target) as scheduler:
            async with asyncio.timeout(20):
                results = await asyncio.gather(
                    *(
                        scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
                        for i in range(NUM_REQUESTS)
                    ),
                    return_exceptions=True,
                )
    for index, result in enumerate(results):
        if index == 2:
            assert isinstance(result, InvalidArgument)
        else:
            assert isinstance(result, Streamed) and tuple(result.token_ids) == wanted(index)
