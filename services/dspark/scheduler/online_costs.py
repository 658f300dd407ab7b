"""The verifier's cost table, kept true to the steps that are seen.

A table measured at start-up ages: another process takes a core, contexts grow, or the start itself
was disturbed. What a point costs now is its measured time, times how slow the machine is (one level
for all points), times how far the point is off beside the others (its shape). What decides on nodes
is the difference of two points, a small part of either, so a pass moves the shapes of the points
right around it and of no others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dspark.scheduler.context_costs import ContextCosts
from dspark.scheduler.cost_table import CostTable
from dspark.step import VerifyCost

# Share by which one observation moves the level, and by which it mends the shape where it falls.
# On recorded passes of a busy and of a quiet machine anything from half to twice as much does.
LEVEL_RATE = 0.2
SHAPE_RATE = 0.05
# Share of its shape that a point loses with each observation: old news are worth less.
FORGETTING = 0.001
# One pass beyond this factor of what was measured is a hiccup, and counts as this factor.
MAX_RATIO = 4.0
# Observations between two tables: building one takes longer than a look into it.
REFRESH_INTERVAL = 8


class OnlineCosts:
    """Starts as the measured points; ``at`` is what they are worth now.

    A point is (rows, ms) or a VerifyCost, and without a context it stands for all contexts.
    """

    def __init__(self, points: Sequence[tuple[int, float] | VerifyCost]) -> None:
        self._points = tuple(sorted(VerifyCost(*point) for point in points))
        self._contexts = sorted({point.context for point in self._points})
        # the places of the points of each context, by rows
        self._places = [
            [place for place, point in enumerate(self._points) if point.context == context]
            for context in self._contexts
        ]
        self._level = 1.0
        self._shapes = [1.0] * len(self._points)
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
        ratio = ms / self._measured.at(context).ms(rows)
        self._learn(self._shares(rows, context), min(max(ratio, 1 / MAX_RATIO), MAX_RATIO))
        self._num_observed += 1
        if self._num_observed % REFRESH_INTERVAL == 0:
            self._now = ContextCosts(
                [
                    point._replace(milliseconds=point.milliseconds * self._level * shape)
                    for point, shape in zip(self._points, self._shapes, strict=True)
                ]
            )

    def _learn(self, shares: Sequence[tuple[int, float]], ratio: float) -> None:
        """A pass took ``ratio`` of what points with such ``shares`` made one expect.

        Points mend by the normalised least mean squares rule (Nagumo and Noda 1967).
        """
        shapes = self._shapes
        shape = sum(share * shapes[place] for place, share in shares)
        self._level += LEVEL_RATE * (ratio / shape - self._level)
        step = SHAPE_RATE * (ratio / self._level - shape) / sum(share**2 for _, share in shares)
        for place, share in shares:
            mended = shapes[place] + step * share
            shapes[place] = min(max(mended, 1 / MAX_RATIO), MAX_RATIO)
        self._shapes = [shape + FORGETTING * (1.0 - shape) for shape in shapes]

    def _shares(self, rows: int, context: float) -> list[tuple[int, float]]:
        """The points around a pass, with their shares in the time that was measured for such."""
        parts: list[tuple[int, float]] = []
        for index, context_share in _between(self._contexts, context):
            places = self._places[index]
            for nth, share in _between([self._points[place].rows for place in places], rows):
                place = places[nth]
                parts.append((place, context_share * share * self._points[place].milliseconds))
        total = sum(part for _, part in parts)
        return [(place, part / total) for place, part in parts]


def _between(values: Sequence[int], value: float) -> list[tuple[int, float]]:
    """The places of the ascending values around ``value``, and their shares in it; beyond an end,
    the end.
    """
    after = bisect_right(values, value)
    if after == 0 or after == len(values):
        return [(max(after - 1, 0), 1.0)]
    share = (value - values[after - 1]) / (values[after] - values[after - 1])
    return [(after - 1, 1.0 - share), (after, share)]
