"""What a forward pass costs by its number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


class CostTable:
    """Measured points, made monotone, with straight lines between them.

    Steps of a staircase (row tiles) appear where both their edges were measured. Below the first
    point the cost is the first point's; beyond the last one the last slope goes on.
    """

    def __init__(self, points: Sequence[tuple[int, float]]) -> None:
        if not points:
            raise ValueError("a cost table needs at least one point")
        monotone = _monotone(points)
        self._dense = _interpolate(monotone)
        self._last_rows, self._last_ms = monotone[-1]
        self._slope = 0.0
        if len(monotone) > 1:
            rows, ms = monotone[-2]
            self._slope = (self._last_ms - ms) / (self._last_rows - rows)

    def towards(self, other: CostTable, share: float) -> CostTable:
        """The table ``share`` of the way to ``other``; 1 is there, more is beyond."""
        last_rows = max(self.max_rows, other.max_rows)
        return CostTable(
            [
                (rows, self.ms(rows) + share * (other.ms(rows) - self.ms(rows)))
                for rows in range(last_rows + 1)
            ]
        )

    @property
    def max_rows(self) -> int:
        """Rows of the last measured point."""
        return self._last_rows

    def ms(self, rows: int) -> float:
        if rows <= self._last_rows:
            return self._dense[rows]
        return self._last_ms + self._slope * (rows - self._last_rows)


def _monotone(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    by_rows: dict[int, float] = {}
    for rows, ms in sorted(points):
        by_rows[rows] = max(ms, by_rows.get(rows, 0.0))
    highest = 0.0
    monotone = []
    for rows, ms in by_rows.items():
        highest = max(highest, ms)
        monotone.append((rows, highest))
    return monotone


def _interpolate(points: list[tuple[int, float]]) -> list[float]:
    first_rows, first_ms = points[0]
    dense = [first_ms] * (first_rows + 1)
    for (rows, ms), (next_rows, next_ms) in pairwise(points):
        slope = (next_ms - ms) / (next_rows - rows)
        dense.extend(ms + slope * step for step in range(1, next_rows - rows + 1))
    return dense
