"""Each step of each scheduler runs once."""

from __future__ import annotations

import asyncio

import pytest

from dspark.errors import StaleStep
from dspark.verifier.step_log import _MAX_SCHEDULERS, StepLog


class Steps:
    """Counts its runs; each waits until ``go`` is set."""

    def __init__(self) -> None:
        self.num_runs = 0
        self.go = asyncio.Event()
        self.failing = False

    async def __call__(self) -> int:
        self.num_runs += 1
        run = self.num_runs
        await self.go.wait()
        if self.failing:
            raise RuntimeError("failed")
        return run


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def test_a_repeat_returns_the_stored_reply(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    steps.go.set()
    assert [await log.once("s", 1, steps) for _ in range(3)] == [1, 1, 1]
    assert await log.once("s", 2, steps) == 2
    with pytest.raises(StaleStep) as raised:
        await log.once("s", 1, steps)
    assert raised.value.metadata == {"step_id": "1"}


async def test_a_repeat_of_a_running_step_awaits_it(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    calls = [asyncio.ensure_future(log.once("s", 1, steps)) for _ in range(3)]
    await asyncio.sleep(0)
    steps.go.set()
    assert await asyncio.gather(*calls) == [1, 1, 1]


async def test_a_caller_that_goes_away_does_not_stop_the_step(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    call = asyncio.ensure_future(log.once("s", 1, steps))
    await asyncio.sleep(0)
    call.cancel()
    steps.go.set()
    assert await log.once("s", 1, steps) == 1


async def test_a_failed_step_runs_again(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    steps.go.set()
    steps.failing = True
    with pytest.raises(RuntimeError):
        await log.once("s", 1, steps)
    steps.failing = False
    assert await log.once("s", 1, steps) == 2


async def test_schedulers_count_on_their_own_and_the_oldest_are_forgotten(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    steps.go.set()
    await log.once("first", 9, steps)
    for number in range(_MAX_SCHEDULERS - 1):
        await log.once(f"s{number}", 1, steps)
    with pytest.raises(StaleStep):
        await log.once("first", 8, steps)
    await log.once("another", 1, steps)
    await log.once("one more", 1, steps)
    assert await log.once("first", 8, steps) > 1


async def test_drain_waits_for_running_steps(steps: Steps) -> None:
    log: StepLog[int] = StepLog()
    await log.drain()
    call = asyncio.ensure_future(log.once("s", 1, steps))
    await asyncio.sleep(0)
    drained = asyncio.ensure_future(log.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    steps.go.set()
    await drained
    assert call.done() or await call == 1
