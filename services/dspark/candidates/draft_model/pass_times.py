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
        """Seconds at most, by sizes that were seen: 0 where none was.

        A smaller pass takes no longer than a larger one, and a larger one longer in proportion.
        """
        bucket = num_rows.bit_length()
        if bucket in self._seconds:
            return self._seconds[bucket]
        bounds = (
            seconds * 2.0 ** max(0, bucket - known) for known, seconds in self._seconds.items()
        )
        return min(bounds, default=0.0)

    def refused(self) -> None:
        """A round had no time for any pass."""
        for bucket in self._seconds:
            self._seconds[bucket] *= _FADE
