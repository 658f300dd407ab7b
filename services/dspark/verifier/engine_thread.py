"""The one thread on which the model loads and steps run, seen from the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class EngineThread:
    """Runs calls one after another, so that the event loop stays free, and knows whether they
    progress.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._clock = clock
        self._running_since: float | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await the call; a caller that goes away does not stop it once it runs."""
        return await self.queue(function, *args, **kwargs)

    def queue(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run the call after all that were queued before it."""

        def timed() -> T:
            self._running_since = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                self._running_since = None

        return asyncio.get_running_loop().run_in_executor(self._executor, timed)

    @property
    def running_s(self) -> float:
        """How long the present call has been running; 0 when none is."""
        since = self._running_since
        return 0.0 if since is None else self._clock() - since

    def close(self) -> None:
        """Refuse new calls; the present one runs on."""
        self._executor.shutdown(wait=False, cancel_futures=True)
