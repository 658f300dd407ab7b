"""Health means progress: says whether the engine still finishes its steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from dspark.verifier.engine_thread import EngineThread

log = logging.getLogger(__name__)

MAX_FAILURES = 3


class Watchdog:
    """Reports NOT_SERVING while a step runs longer than ``stall_s`` or steps keep failing."""

    def __init__(
        self,
        thread: EngineThread,
        count_failures: Callable[[], int],
        set_ready: Callable[[bool], Awaitable[None]],
        *,
        stall_s: float,
    ) -> None:
        self._thread = thread
        self._count_failures = count_failures
        self._set_ready = set_ready
        self._stall_s = stall_s
        self._was_ready: bool | None = None

    def is_progressing(self) -> bool:
        return self._thread.running_s <= self._stall_s and self._count_failures() < MAX_FAILURES

    async def report(self) -> None:
        """Tell the health service if the state has changed."""
        ready = self.is_progressing()
        if ready == self._was_ready:
            return
        if not ready:
            log.error("the engine makes no progress; health is NOT_SERVING until it does")
        self._was_ready = ready
        await self._set_ready(ready)

    async def run(self) -> None:
        """Report for ever, a few times within ``stall_s``."""
        while True:
            await self.report()
            await asyncio.sleep(min(1.0, self._stall_s / 4))
