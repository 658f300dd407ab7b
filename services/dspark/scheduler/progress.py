"""Health means progress: with requests running, steps must go on finishing."""

from __future__ import annotations

from collections.abc import Callable

from dspark.clock import monotonic


class Progress:
    """Remembers when the last step of each wave finished, or when work began after a pause."""

    def __init__(self, stall_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._stall_s = stall_s
        self._clock = clock
        self._due_since: dict[int, float] = {}

    def busy(self, wave: int = 0) -> None:
        """There is work: a step is due from now on, unless one was already."""
        self._due_since.setdefault(wave, self._clock())

    def idle(self, wave: int | None = None) -> None:
        """There is none, for this wave or for all."""
        if wave is None:
            self._due_since.clear()
        else:
            self._due_since.pop(wave, None)

    def stepped(self, wave: int = 0) -> None:
        self._due_since[wave] = self._clock()

    @property
    def is_idle(self) -> bool:
        return not self._due_since

    @property
    def is_stalled(self) -> bool:
        now = self._clock()
        return any(now - since > self._stall_s for since in self._due_since.values())
