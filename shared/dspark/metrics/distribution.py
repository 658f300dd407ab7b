"""A histogram in plain numbers, cheap enough for every step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Distribution:
    """Counts of values by upper bound, and their sum.

    One thread observes. Another may read: it can miss the observation that is under way.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds`` ascend; a value beyond the last one is counted apart."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """(upper bound, values up to it), the last bound being infinite."""
        sums = accumulate(list(self.counts))
        return list(zip((*self.bounds, float("inf")), sums, strict=True))
