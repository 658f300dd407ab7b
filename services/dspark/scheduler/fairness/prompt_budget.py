"""How many prompt rows a step may have, so that nobody else waits long for it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.online_costs import OnlineCosts
from dspark.step import VerifyCost

# However slow the verifier is, prompts get on.
MIN_ROWS = 16
# Part of the best speed in rows a second that is enough: the rest would take much larger passes.
ENOUGH = 0.85
# About what a step takes beside its pass.
STEP_MS = 3.0
# What a step that completes prompts may take, as a multiple, to get on with others as well.
STRETCH = 1.25


class PromptBudget:
    """Goes by the verifier's measured costs; without any, ``max_rows`` is the only bound.

    Prompts get the fewest rows that are computed at nearly full speed: whoever comes meanwhile
    waits for the step to end. A pass of them alone takes ``limit_ms`` at most; 0 means that only
    ``max_rows`` limits them. Where all prompts are long ones they get half.
    """

    def __init__(self, costs: CostTable | None, limit_ms: float, max_rows: int) -> None:
        self._costs = costs
        self._max_rows = max_rows
        self.num_rows = self.num_long_rows = self._most_rows = max_rows
        if costs is not None and limit_ms:
            within = _rows_within(costs, limit_ms, max_rows)
            enough = min(within, _enough_rows(costs, max_rows))
            least = min(MIN_ROWS, max_rows)
            self.num_rows = max(enough, least)
            self.num_long_rows = max(enough // 2, least)
            self._most_rows = max(within, least)

    @classmethod
    def measured(cls, costs: Sequence[VerifyCost], limit_ms: float, max_rows: int) -> PromptBudget:
        """By the costs at the shortest context, since those of a prompt's rows are all there is."""
        known = OnlineCosts.measured(costs)
        return cls(None if known is None else known.at(0), limit_ms, max_rows)

    def stretched(self, factor: float) -> PromptBudget:
        """For steps that take ``factor`` times as long for their drafts: so prompts get on as fast.

        Else a faster decode would only have its requests' places wait for the next prompts. A pass
        of them alone takes no longer than it may.
        """
        budget = copy(self)
        budget.num_rows = min(round(self.num_rows * factor), self._most_rows)
        budget.num_long_rows = min(round(self.num_long_rows * factor), self._most_rows)
        return budget

    def beside(self, num_rows: int) -> int:
        """Rows of unfinished prompts in a step whose other rows complete prompts and decode."""
        if self._costs is None:
            return self._max_rows
        limit_ms = self._costs.ms(num_rows) * STRETCH
        return _rows_within(self._costs, limit_ms, self._max_rows) - num_rows


def _enough_rows(costs: CostTable, max_rows: int) -> int:
    speeds = [rows / (costs.ms(rows) + STEP_MS) for rows in range(1, max_rows + 1)]
    enough = ENOUGH * max(speeds)
    return next(rows for rows, speed in enumerate(speeds, 1) if speed >= enough)


def _rows_within(costs: CostTable, limit_ms: float, max_rows: int) -> int:
    """The largest number of rows, 0 to ``max_rows``, whose pass takes no longer than the limit."""
    low, high = 0, max_rows
    while low < high:
        middle = (low + high + 1) // 2
        if costs.ms(middle) <= limit_ms:
            low = middle
        else:
            high = middle - 1
    return low
