"""Health follows progress."""

from __future__ import annotations

import asyncio
import threading

from dspark.verifier.engine_thread import EngineThread
from dspark.verifier.watchdog import MAX_FAILURES, Watchdog
from harness.verifier_engine import FakeClock


class Health:
    """Records what it is told."""

    def __init__(self) -> None:
        self.states: list[bool] = []
        self.num_failures = 0

    async def set_ready(self, ready: bool) -> None:
        self.states.append(ready)


async def test_a_call_that_takes_too_long_is_a_stall_until_it_ends() -> None:
    clock, health = FakeClock(), Health()
    thread = EngineThread(clock)
    watchdog = Watchdog(thread, lambda: 0, health.set_ready, stall_s=30.0)
    started, finish = threading.Event(), threading.Event()
    await watchdog.report()

    def work() -> bool:
        started.set()
        return finish.wait(20)

    call = asyncio.ensure_future(thread.run(work))
    await asyncio.to_thread(started.wait, 10)
    clock.now += 30
    await watchdog.report()
    clock.now += 1
    await watchdog.report()
    await watchdog.report()
    finish.set()
    assert await call
    await watchdog.report()
    thread.close()
    assert health.states == [True, False, True]


async def test_steps_that_keep_failing_are_no_progress() -> None:
    health = Health()
    thread = EngineThread()
    watchdog = Watchdog(thread, lambda: health.num_failures, health.set_ready, stall_s=30.0)
    for health.num_failures in (0, MAX_FAILURES - 1, MAX_FAILURES, MAX_FAILURES + 1, 0):
        await watchdog.report()
    thread.close()
    assert health.states == [True, False, True]


async def test_calls_run_one_after_another_on_one_thread() -> None:
    thread = EngineThread()
    names = await asyncio.gather(*(thread.run(threading.get_ident) for _ in range(8)))
    thread.close()
    assert len(set(names)) == 1
    assert names[0] != threading.get_ident()
    assert thread.running_s == 0.0
