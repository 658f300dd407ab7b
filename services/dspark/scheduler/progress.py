"""Health means progress: with requests running, steps must go on finishing."""

from __future__ import annotations

from collections.abc import Callable

from dspark.clock import monotonic


class Progress:
    """Remembers when the last step finished, or when work began after a pause."""

    def __init__(self, stall_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._stall_s = stall_s
        self._clock = clock
        self._due_since: float | None = None

    def busy(self) -> None:
        """There is work: a step is due from now on, unless one was already."""
        if self._due_since is None:
            self._due_since = self._clock()

    def idle(self) -> None:
        self._due_since = None

    def stepped(self) -> None:
        self._due_since = self._clock()

    @property
    def is_idle(self) -> bool:
        return self._due_since is None

    @property
    def is_stalled(self) -> bool:
        return self._due_since is not None and self._clock() - self._due_since > self._stall_s
