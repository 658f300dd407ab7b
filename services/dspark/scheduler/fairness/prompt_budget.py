"""How many prompt rows a step may have, so that nobody else waits long for it."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.online_costs import OnlineCosts
from dspark.step import VerifyCost

# However slow the verifier is, prompts get on.
MIN_ROWS = 16
# What a step that completes prompts may take, as a multiple, to get on with others as well.
STRETCH = 1.25


class PromptBudget:
    """Goes by the verifier's measured costs; without any, ``max_rows`` is the only bound.

    A pass of prompt rows alone takes ``limit_ms`` at most, or half of it where all prompts are long
    ones; 0 means no limit.
    """

    def __init__(self, costs: CostTable | None, limit_ms: float, max_rows: int) -> None:
        self._costs = costs
        self._max_rows = max_rows
        self.num_rows = self.num_long_rows = max_rows
        if costs is not None and limit_ms:
            least = min(MIN_ROWS, max_rows)
            self.num_rows = max(_rows_within(costs, limit_ms, max_rows), least)
            self.num_long_rows = max(_rows_within(costs, limit_ms / 2, max_rows), least)

    @classmethod
    def measured(cls, costs: Sequence[VerifyCost], limit_ms: float, max_rows: int) -> PromptBudget:
        """By the costs at the shortest context, since those of a prompt's rows are all there is."""
        known = OnlineCosts.measured(costs)
        return cls(None if known is None else known.at(0), limit_ms, max_rows)

    def beside(self, num_rows: int) -> int:
        """Rows of unfinished prompts in a step whose other rows complete prompts and decode."""
        if self._costs is None:
            return self._max_rows
        limit_ms = self._costs.ms(num_rows) * STRETCH
        return _rows_within(self._costs, limit_ms, self._max_rows) - num_rows


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
