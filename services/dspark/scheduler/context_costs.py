"""What a forward pass costs by its number of rows and the context that they attend to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dspark.scheduler.cost_table import CostTable
from dspark.step import VerifyCost

# Tables between two measured contexts; those closer together differ by less than is measured.
STEPS_BETWEEN = 8


class ContextCosts:
    """A cost table for any context: between measured ones on a straight line, as beyond the last.

    Tables are made when they are first asked for, and there are few, so a step only looks one up.
    """

    def __init__(self, points: Sequence[VerifyCost]) -> None:
        """Raises ValueError without points."""
        self._contexts = sorted({point.context for point in points})
        measured: list[tuple[int, float]] = []
        self._tables: list[CostTable] = []
        for context in self._contexts:
            # A longer context never costs less; rows that were not measured at it are as before.
            measured += [(p.rows, p.milliseconds) for p in points if p.context == context]
            self._tables.append(CostTable(measured))
        if not self._tables:
            raise ValueError("a cost table needs at least one point")
        self._between: dict[tuple[int, int], CostTable] = {}

    @property
    def max_rows(self) -> int:
        """Rows of the last measured point."""
        return self._tables[0].max_rows

    def at(self, context: float) -> CostTable:
        """The table of a mean context, to the nearest of a few steps."""
        if len(self._tables) == 1 or context <= self._contexts[0]:
            return self._tables[0]
        lower = min(bisect_right(self._contexts, context), len(self._contexts) - 1) - 1
        start, end = self._contexts[lower], self._contexts[lower + 1]
        step = round((context - start) / (end - start) * STEPS_BETWEEN)
        key = (lower, step)
        if key not in self._between:
            share = step / STEPS_BETWEEN
            self._between[key] = self._tables[lower].towards(self._tables[lower + 1], share)
        return self._between[key]
