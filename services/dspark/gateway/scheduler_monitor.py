"""What the gateway knows of the scheduler now: its info, or why there is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from dspark.errors import DSparkError, NotReady
from dspark.gateway.token_source import SchedulerInfo, TokenSource
from dspark.log_limiter import LogLimiter

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
# While nothing can be served, readiness is worth more than the cost of asking.
RETRY_INTERVAL_S = 0.1


class SchedulerMonitor:
    """Asks the scheduler for its info again and again; requests read the latest answer."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._info: SchedulerInfo | None = None
        self._known_sources: frozenset[str] = frozenset()
        self._limiter = LogLimiter()
        self.problem: DSparkError | None = NotReady("the scheduler was not asked yet")

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    @property
    def known_sources(self) -> frozenset[str]:
        """Every candidate source seen so far: one that is down for now is no unknown name."""
        return self._known_sources

    async def refresh(self) -> None:
        """Ask once."""
        try:
            self._info = await self._source.info()
        except DSparkError as error:
            if self._limiter.is_due(error.message) or self.problem is None:
                log.warning("the scheduler is not ready: %s", error)
            self.problem = error
            return
        self._known_sources |= frozenset(self._info.sources)
        self.problem = None

    def require_info(self) -> SchedulerInfo:
        """The info; raises the scheduler's problem if it was never ready.

        A passing failure refuses no request here: the call itself says whether it can be served.
        """
        if self._info is None:
            assert self.problem is not None
            raise self.problem
        return self._info

    async def watch(self, on_change: Callable[[bool], Coroutine[Any, Any, None]]) -> None:
        """Refresh forever; report each change of readiness."""
        was_ready: bool | None = None
        while True:
            await self.refresh()
            if self.is_ready != was_ready:
                was_ready = self.is_ready
                await on_change(was_ready)
            await asyncio.sleep(POLL_INTERVAL_S if self.is_ready else RETRY_INTERVAL_S)
