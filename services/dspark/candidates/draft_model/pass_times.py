"""How long passes of a model take, by their number of rows, as running averages (pure)."""

from __future__ import annotations

_WEIGHT = 0.25
# An estimate that keeps passes from being tried falls, so that they are tried again one day.
_FADE = 0.9


class PassTimes:
    """Passes are told apart by the power of two that their rows reach."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add(self, num_rows: int, seconds: float) -> None:
        bucket = num_rows.bit_length()
        known = self._seconds.get(bucket, seconds)
        self._seconds[bucket] = known + _WEIGHT * (seconds - known)

    def estimate(self, num_rows: int) -> float:
        """Seconds; sizes that were never seen go by the nearest one that was.

        A larger pass takes longer in proportion, a smaller one no less.
        """
        if not self._seconds:
            return 0.0
        bucket = num_rows.bit_length()
        nearest = min(self._seconds, key=lambda known: (abs(known - bucket), known))
        return self._seconds[nearest] * 2.0 ** max(0, bucket - nearest)

    def refused(self) -> None:
        """A round had no time for any pass."""
        for bucket in self._seconds:
            self._seconds[bucket] *= _FADE
