"""The verifier's cost table, kept true to the steps that are seen.

A table measured at start-up ages: another process takes a core, contexts grow, or the start itself
was disturbed. Each observed pass pulls the points near its number of rows towards what it took, and
those further away a little, so the table follows both the machine's speed and its own shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dspark.scheduler.cost_table import CostTable

# Share by which one observation moves the point it falls on; each doubling of rows between them
# halves it.
LEARNING_RATE = 0.05
# One pass beyond this factor of what was expected is a hiccup, and counts as this factor.
MAX_RATIO = 4.0
# Observations between two tables: building one takes longer than a look into it.
REFRESH_INTERVAL = 8


class OnlineCosts:
    """Starts as the measured points (rows, ms); ``table`` is what they are worth now."""

    def __init__(self, points: Sequence[tuple[int, float]]) -> None:
        self._points = tuple(points)
        self._ratios = [1.0] * len(self._points)
        self._num_observed = 0
        self._measured = self.table = CostTable(points)

    @classmethod
    def measured(cls, points: Sequence[tuple[int, float]]) -> OnlineCosts | None:
        """None when nothing was measured."""
        return cls(points) if points else None

    def observe(self, rows: int, ms: float) -> None:
        """Take in one pass; passes beyond the measured rows tell nothing of the points."""
        if not 0 < rows <= self._measured.max_rows or ms <= 0:
            return
        ratio = min(max(ms / self._measured.ms(rows), 1 / MAX_RATIO), MAX_RATIO)
        for index, (point, _) in enumerate(self._points):
            weight = LEARNING_RATE * 0.5 ** abs(math.log2(rows / point))
            self._ratios[index] += weight * (ratio - self._ratios[index])
        self._num_observed += 1
        if self._num_observed % REFRESH_INTERVAL == 0:
            pairs = zip(self._points, self._ratios, strict=True)
            self.table = CostTable([(point, cost * r) for (point, cost), r in pairs])
