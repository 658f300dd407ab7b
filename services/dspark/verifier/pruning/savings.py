"""What dropping rows behind a layer saves, from measured passes (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class CutCost(NamedTuple):
    """Measured at a number of rows, in milliseconds: a whole pass, one of its layers, and what a
    cut adds to a pass from which it drops nothing.
    """

    rows: int
    pass_ms: float
    layer_ms: float
    cut_ms: float


@dataclass(frozen=True, slots=True)
class Savings:
    """Costs by rows, ascending; between two measured numbers of rows they lie on a line.

    A line through the measured staircase is flat where the staircase is: rows that share a tile
    save nothing.
    """

    costs: tuple[CutCost, ...]

    def pass_ms(self, num_rows: float) -> float:
        return _at(num_rows, [(cost.rows, cost.pass_ms) for cost in self.costs])

    def saved_ms(self, layer: int, num_rows: float, num_kept: float) -> float:
        """By cutting a pass of ``num_rows`` behind its first ``layer`` layers; less than 0 if the
        cut costs more than the rows that it drops.
        """
        rest = [(cost.rows, cost.pass_ms - layer * cost.layer_ms) for cost in self.costs]
        added = _at(num_rows, [(cost.rows, cost.cut_ms) for cost in self.costs])
        return _at(num_rows, rest) - _at(num_kept, rest) - added


def savings_of(costs: Sequence[CutCost]) -> Savings:
    """With each time no less than at fewer rows, so that noise of the measurement saves nothing."""
    rows = sorted(costs)
    columns = [np.maximum.accumulate([cost[i] for cost in rows]) for i in (1, 2)]
    return Savings(
        tuple(
            CutCost(cost.rows, float(whole), float(layer), max(cost.cut_ms, 0.0))
            for cost, whole, layer in zip(rows, *columns, strict=True)
        )
    )


def _at(rows: float, points: Sequence[tuple[int, float]]) -> float:
    """The value at ``rows``; outside of what was measured, that at the nearest end."""
    return float(np.interp(rows, [x for x, _ in points], [y for _, y in points]))
