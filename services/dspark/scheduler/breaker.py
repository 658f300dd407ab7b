"""A circuit breaker: after failures in a row, calls pause; then one probe decides."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_OPEN_S = 30.0


class CircuitBreaker:
    """Closed lets calls pass, open refuses them, half-open lets one probe pass.

    Each failed probe doubles the pause, up to half a minute.
    """

    def __init__(
        self, max_failures: int, open_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = max_failures
        self._first_open_s = open_s
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_closed(self) -> bool:
        return self._opened_at is None

    def allows(self) -> bool:
        """Whether a call may be made now."""
        return self._opened_at is None or self._clock() - self._opened_at >= self._open_s

    def succeeded(self) -> None:
        self._failures = 0
        self._opened_at = None
        self._open_s = self._first_open_s

    def failed(self) -> bool:
        """Count a failure; True when it opened the breaker anew."""
        if self._opened_at is not None:
            self._open_s = min(self._open_s * 2, MAX_OPEN_S)
            self._opened_at = self._clock()
            return False
        self._failures += 1
        if self._failures < self._max_failures:
            return False
        self._opened_at = self._clock()
        return True
