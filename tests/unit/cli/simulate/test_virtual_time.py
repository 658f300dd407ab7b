"""Waiting that takes no time."""

from __future__ import annotations

import asyncio
import time

import pytest

from dspark import clock
from dspark.cli.simulate.virtual_time import Deadlock, run_virtual


def test_a_sleep_moves_the_clock_and_nothing_else() -> None:
    async def main() -> float:
        started = clock.monotonic()
        await asyncio.sleep(86_400.0 * 365)
        return clock.monotonic() - started

    assert run_virtual(main()) == pytest.approx(86_400.0 * 365)


def test_timers_come_in_their_order() -> None:
    came: list[tuple[str, float]] = []

    async def note(name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        came.append((name, clock.monotonic()))

    async def main() -> None:
        await asyncio.gather(note("late", 3.0), note("early", 1.0), note("middle", 2.0))

    run_virtual(main())
    assert came == [("early", 1.0), ("middle", 2.0), ("late", 3.0)]


def test_timeouts_go_by_the_same_clock() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.sleep(6.0)
        async with asyncio.timeout(5.0):
            await asyncio.sleep(4.0)
        return clock.monotonic()

    assert run_virtual(main()) == pytest.approx(9.0)


def test_work_takes_no_time() -> None:
    async def main() -> float:
        sum(range(10_000))
        await asyncio.sleep(0)
        return clock.monotonic()

    assert run_virtual(main()) == 0.0


def test_tasks_that_wait_for_each_other_are_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(main())


def test_the_machines_clock_is_back_afterwards() -> None:
    async def main() -> None:
        await asyncio.sleep(1e6)

    before = time.perf_counter()
    run_virtual(main())
    assert before <= clock.monotonic() < before + 1e6
