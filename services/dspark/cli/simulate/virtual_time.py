"""An event loop in which waiting takes no time: the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from dspark import clock

T = TypeVar("T")

# Timers so close together come at once: far more than what a sum of many waits is off by.
RESOLUTION_S = 1e-7


class Deadlock(Exception):
    """Nothing is left that could happen: every task waits for another."""


class _NeverWaits(selectors.SelectSelector):
    """Passes the time that it was to wait; nothing outside the loop can end a wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("every task waits for another")
        self.now_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at time 0. Timers, sleeps and timeouts work as ever; threads and sockets do not."""

    def __init__(self) -> None:
        self._virtual = _NeverWaits()
        super().__init__(self._virtual)
        # What asyncio takes from the machine's own clock, which is finer than large numbers are.
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._virtual.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as ``asyncio.run`` does, with ``dspark.clock`` at the loop's time."""
    loop = VirtualLoop()
    with clock.replaced(loop.time), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
