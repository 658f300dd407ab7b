"""Stops calling what keeps failing, and tries again later, less and less often."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from dspark.clock import monotonic


class BreakerState(IntEnum):
    """Whether calls are made: all, none, or one on trial."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class CircuitBreaker:
    """Closed (calls allowed) until ``max_failures`` in a row, then open for a while.

    When the while is over, one trial is allowed (half-open): its success closes the breaker, its
    failure opens it again for twice as long.
    """

    def __init__(
        self,
        max_failures: int,
        min_pause_s: float,
        max_pause_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._max_failures = max_failures
        self._min_pause_s = min_pause_s
        self._max_pause_s = max_pause_s
        self._clock = clock
        self._failures = 0
        self._pause_s = min_pause_s
        self._retry_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused or on trial."""
        return self._retry_at is not None

    @property
    def state(self) -> BreakerState:
        if self._retry_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self.seconds_to_trial else BreakerState.HALF_OPEN

    @property
    def seconds_to_trial(self) -> float:
        """How long until a trial is allowed; 0 when one is, or when the breaker is closed."""
        return 0.0 if self._retry_at is None else max(0.0, self._retry_at - self._clock())

    def allows(self) -> bool:
        """Whether to make a call now. While half-open only the first asker is told yes."""
        if self._retry_at is None:
            return True
        if self._clock() < self._retry_at:
            return False
        self._retry_at = self._clock() + self._pause_s
        return True

    def succeeded(self) -> None:
        """Close."""
        self._failures = 0
        self._pause_s = self._min_pause_s
        self._retry_at = None

    def open(self) -> None:
        """Refuse calls until a trial succeeds; one is allowed at once."""
        self._retry_at = self._clock()

    def failed(self) -> bool:
        """Count a failure; open after too many in a row, or at once after a failed trial.

        True when it was closed and is open now.
        """
        self._failures += 1
        was_open = self.is_open
        if was_open:
            self._pause_s = min(2 * self._pause_s, self._max_pause_s)
        if was_open or self._failures >= self._max_failures:
            self._retry_at = self._clock() + self._pause_s
        return self.is_open and not was_open
