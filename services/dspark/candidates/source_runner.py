"""Calls one source such that nothing it does can hurt: failures are counted, logged and muted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from dspark.candidates.circuit_breaker import CircuitBreaker
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, Trees

log = logging.getLogger(__name__)

# A broken source fails every step: say so once in this many seconds.
LOG_INTERVAL_S = 10.0


class SourceRunner:
    """A source, how often it failed and by what reason, and whether it is muted.

    Reasons: ``raised`` (in any call), ``late`` (no trees by the deadline), ``garbage`` (not one
    tree a request). After ``max_failures`` in a row the source is muted: not asked for trees, and
    tried again later.
    """

    def __init__(self, source: CandidateSource, breaker: CircuitBreaker) -> None:
        self.source = source
        self.failures: Counter[str] = Counter()
        self._breaker = breaker
        self._next_log = 0.0

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def is_muted(self) -> bool:
        return self._breaker.is_open

    def may_propose(self) -> bool:
        return self._breaker.allows()

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Trees | Awaitable[Trees] | None:
        """The source's trees, a promise of them, or None when it raised."""
        try:
            return self.source.propose(requests, deadline)
        except Exception as error:
            self.failed("raised", error)
            return None

    def accept(self, trees: Trees, num_requests: int, deadline: float) -> Trees | None:
        """The trees if there is one a request. Late ones are used too, but count as a failure."""
        if len(trees) != num_requests:
            self.failed("garbage")
            return None
        if time.monotonic() > deadline:
            self.failed("late")
        else:
            self._breaker.succeeded()
        return trees

    def tell(self, method: Callable[..., None], *arguments: object) -> None:
        """Call one of the source's methods that return nothing."""
        try:
            method(*arguments)
        except Exception as error:
            self.failed("raised", error)

    def failed(self, reason: str, error: BaseException | None = None) -> None:
        """Count a failure, mute the source if there were too many in a row, log now and then."""
        self.failures[reason] += 1
        self._breaker.failed()
        now = time.monotonic()
        if now < self._next_log:
            return
        self._next_log = now + LOG_INTERVAL_S
        log.warning(
            "source %s: %s; failures so far: %s%s",
            self.name,
            reason,
            dict(self.failures),
            "; muted for now" if self.is_muted else "",
            exc_info=error,
        )
