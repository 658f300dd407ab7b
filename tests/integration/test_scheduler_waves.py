"""Two waves on one verifier: their steps overlap, and nobody notices in the tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from dspark.sampling import SamplingParams
from dspark.scheduler import waves
from dspark.scheduler.worker import Worker
from dspark.verifier.server import serving
from harness.fake_candidates import FakeCandidates
from harness.fake_model import FakeModel
from harness.fake_verifier import FakeVerifier, StepFault
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, Streamed, make_request, running_scheduler
from harness.scripted_drafters import Drafter, KnownText
from harness.verifier_engine import plain_decode
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

MODEL = HashModel(max_model_len=512)
NUM_REQUESTS = 6


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "CHOICE_INTERVAL", 2)


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple(range(index, index + 6))


def params_of(index: int, max_tokens: int = 40) -> SamplingParams:
    temperature = (0.0, 0.8)[index % 2]
    return SamplingParams(
        temperature=temperature, seed=index, max_tokens=max_tokens, ignore_eos=True
    )


def drafters(name: str) -> dict[str, Drafter]:
    made: dict[str, Drafter] = {}
    for index in range(NUM_REQUESTS):
        text = MODEL.generate(prompt_of(index), params_of(index)).token_ids
        known = KnownText([*prompt_of(index), *text], MODEL.vocab_size)
        made[f"r{index}"] = known.all()[name]
    return made


def slow(rows: int) -> float:
    return 0.004


async def run_all(scheduler: RunningScheduler) -> list[Streamed]:
    async with asyncio.timeout(60):
        return await asyncio.gather(
            *(
                scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
                for i in range(NUM_REQUESTS)
            )
        )


def check(streams: list[Streamed]) -> None:
    for index, streamed in enumerate(streams):
        want = MODEL.generate(prompt_of(index), params_of(index))
        assert tuple(streamed.token_ids) == want.token_ids


def worker_of(scheduler: RunningScheduler) -> Worker:
    return scheduler.server.scheduler.pool.workers[0]


def wave_sizes(scheduler: RunningScheduler) -> Counter[int]:
    return Counter(request.wave for request in worker_of(scheduler).live.running)


@pytest.mark.parametrize("name", ["empty", "oracle", "branchy", "adversary"])
async def test_steps_of_two_waves_overlap_and_give_the_same_tokens(name: str) -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=lambda rows: 0.03) as verifier,
        FakeCandidates(drafters(name)) as candidates,
        running_scheduler(verifier.target, candidates.target, waves="2") as scheduler,
    ):
        check(await run_all(scheduler))
        assert verifier.num_queued
        assert len({plan.scheduler_id for plan in verifier.plans if plan.work}) == 2
        await until(lambda: not verifier.sequences and not candidates.sequences)


async def test_one_wave_never_has_two_steps_under_way() -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow) as verifier,
        running_scheduler(verifier.target, waves="1") as scheduler,
    ):
        check(await run_all(scheduler))
        assert not verifier.num_queued
        assert len({plan.scheduler_id for plan in verifier.plans}) == 1


async def test_a_verifier_on_processors_has_one_wave_unless_told_otherwise() -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow) as verifier,
        running_scheduler(verifier.target) as scheduler,
    ):
        check(await run_all(scheduler))
        assert len({plan.scheduler_id for plan in verifier.plans}) == 1


async def test_a_request_is_admitted_once_whichever_wave_goes_on_with_it() -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow) as verifier,
        running_scheduler(verifier.target, waves="2") as scheduler,
    ):
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: wave_sizes(scheduler) == {0: 3, 1: 3})
        check(await running)
        admitted = Counter(a.request_id for plan in verifier.plans for a in plan.admissions)
        assert set(admitted.values()) == {1}
        by_request: dict[str, set[str]] = {}
        for plan in verifier.plans:
            for work in plan.work:
                by_request.setdefault(work.request_id, set()).add(plan.scheduler_id)
        assert any(len(loops) == 2 for loops in by_request.values())


@pytest.mark.parametrize("name", ["empty", "oracle", "adversary"])
@pytest.mark.parametrize("num_blocks", [14, 18, 23])
async def test_requests_that_give_way_to_the_other_wave_come_back(
    num_blocks: int, name: str
) -> None:
    async with (
        FakeVerifier(model=MODEL, num_blocks=num_blocks) as verifier,
        FakeCandidates(drafters(name)) as candidates,
        running_scheduler(verifier.target, candidates.target, waves="2") as scheduler,
    ):
        check(await run_all(scheduler))
        assert scheduler.server.scheduler.totals.num_preemptions
        assert verifier.max_used_blocks <= num_blocks
        await until(lambda: not verifier.sequences)


async def test_trees_of_both_waves_leave_each_other_their_blocks() -> None:
    """Six requests of 46 tokens need 72 of 80 blocks: trees have to make do with the others."""
    async with (
        FakeVerifier(model=MODEL, num_blocks=80, forward_s=slow) as verifier,
        FakeCandidates(drafters("branchy")) as candidates,
        running_scheduler(verifier.target, candidates.target, waves="2") as scheduler,
    ):
        check(await run_all(scheduler))
        assert not verifier.num_starved
        assert not scheduler.server.scheduler.totals.num_preemptions


@pytest.mark.parametrize(
    "fault",
    [StepFault.REFUSE, StepFault.DROP_REPLY, StepFault.RESTART, StepFault.FORGET, StepFault.BUG],
)
async def test_a_failed_step_of_one_wave_costs_neither_a_token(fault: StepFault) -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow) as verifier,
        running_scheduler(verifier.target, waves="2") as scheduler,
    ):
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: wave_sizes(scheduler) == {0: 3, 1: 3})
        for _ in range(3):
            verifier.faults.append(fault)
            await asyncio.sleep(0.03)
        check(await running)
        await until(lambda: not verifier.sequences)


async def test_whoever_leaves_either_wave_leaves_nothing_behind() -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow, num_blocks=1024) as verifier,
        FakeCandidates() as candidates,
        running_scheduler(verifier.target, candidates.target, waves="2") as scheduler,
    ):
        calls = [
            scheduler.client.stub.Generate(make_request(f"r{i}", prompt_of(i), params_of(i, 400)))
            for i in range(4)
        ]
        for call in calls:
            await call.read()
        await until(lambda: wave_sizes(scheduler) == {0: 2, 1: 2})
        gone = [r.request_id for r in worker_of(scheduler).live.running if r.wave == 1]
        for call in [calls[int(request_id[1:])] for request_id in gone]:
            call.cancel()
        # What is left shares itself out again.
        await until(lambda: wave_sizes(scheduler) == {0: 1, 1: 1})
        for call in calls:
            call.cancel()
        await until(lambda: not verifier.sequences and not candidates.sequences)
        assert verifier.num_free_blocks == verifier.num_blocks


async def test_requests_of_both_waves_leave_a_verifier_that_is_drained() -> None:
    async with (
        FakeVerifier(model=MODEL, forward_s=slow) as first,
        FakeVerifier(model=MODEL, forward_s=slow) as second,
        running_scheduler((first.target, second.target), waves="2") as scheduler,
    ):
        pool = scheduler.server.scheduler.pool
        pool.order_drain(second.target)
        await until(lambda: all(worker.is_serving for worker in pool.workers))
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: wave_sizes(scheduler) == {0: 3, 1: 3})
        pool.order_drain(second.target, resume=True)
        pool.order_drain(first.target)
        check(await running)
        await until(lambda: not first.sequences and not second.sequences)
        assert any(plan.work for plan in second.plans)


async def test_the_engine_itself_gives_the_same_tokens(tmp_path: Path) -> None:
    model = FakeModel()
    config = fake_config(f"unix:{tmp_path}/verifier.sock", kv_tokens=4096)
    async with (
        serving(config, fake_loader(model)),
        running_scheduler(config.listen, waves="2") as scheduler,
    ):
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: len(wave_sizes(scheduler)) == 2)
        streams = await running
    for index, streamed in enumerate(streams):
        assert streamed.token_ids == plain_decode(model, prompt_of(index), params_of(index))[0]
