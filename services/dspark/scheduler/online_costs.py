"""The verifier's cost table, kept true to the steps that are seen.

A table measured at start-up ages: another process takes a core, contexts grow, or the start itself
was disturbed. Each observed pass pulls the points near its number of rows towards what it took, and
those further away a little, so the table follows both the machine's speed and its own shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dspark.scheduler.context_costs import ContextCosts
from dspark.scheduler.cost_table import CostTable
from dspark.step import VerifyCost

# Share by which one observation moves the point it falls on; each doubling of rows or of the
# context between them halves it.
LEARNING_RATE = 0.05
# One pass beyond this factor of what was expected is a hiccup, and counts as this factor.
MAX_RATIO = 4.0
# Observations between two tables: building one takes longer than a look into it.
REFRESH_INTERVAL = 8


class OnlineCosts:
    """Starts as the measured points; ``at`` is what they are worth now.

    A point is (rows, ms) or a VerifyCost, and without a context it stands for all contexts.
    """

    def __init__(self, points: Sequence[tuple[int, float] | VerifyCost]) -> None:
        self._points = tuple(VerifyCost(*point) for point in points)
        self._ratios = [1.0] * len(self._points)
        self._has_contexts = len({point.context for point in self._points}) > 1
        self._num_observed = 0
        self._measured = self._now = ContextCosts(self._points)

    @classmethod
    def measured(cls, points: Sequence[VerifyCost]) -> OnlineCosts | None:
        """None when nothing was measured."""
        return cls(points) if points else None

    def at(self, context: float) -> CostTable:
        """The table for rows that attend to so many tokens on average."""
        return self._now.at(context)

    def observe(self, rows: int, ms: float, context: float = 0.0) -> None:
        """Take in one pass; passes beyond the measured rows tell nothing of the points."""
        if not 0 < rows <= self._measured.max_rows or ms <= 0:
            return
        expected = self._measured.at(context).ms(rows)
        ratio = min(max(ms / expected, 1 / MAX_RATIO), MAX_RATIO)
        for index, point in enumerate(self._points):
            distance = abs(math.log2(rows / point.rows))
            if self._has_contexts:
                distance += abs(math.log2((context + 1) / (point.context + 1)))
            weight = LEARNING_RATE * 0.5**distance
            self._ratios[index] += weight * (ratio - self._ratios[index])
        self._num_observed += 1
        if self._num_observed % REFRESH_INTERVAL == 0:
            pairs = zip(self._points, self._ratios, strict=True)
            self._now = ContextCosts(
                [p._replace(milliseconds=p.milliseconds * ratio) for p, ratio in pairs]
            )
