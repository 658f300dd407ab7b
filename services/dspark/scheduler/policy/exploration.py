"""When to ask for candidates although they do not seem to pay."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dspark.scheduler.policy.interface import Budget, RequestView

MIN_INTERVAL = 4
MAX_INTERVAL = 64
# While nothing sells, exploring is worth less: after so many explorations without a sale its
# interval doubles, a few times at most, since texts change.
UNSOLD_PER_DOUBLING = 8
MAX_DOUBLINGS = 3


class Exploration:
    """Takes about ``share`` of the time, less of it while nothing sells.

    Asking is all that it takes: what becomes of nodes shows in the tokens that are committed, also
    where nobody verifies them.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._num_steps = 0
        self._num_unsold = 0

    def sold(self) -> None:
        """Candidates pay again."""
        self._num_unsold = 0

    def explore(
        self, views: Sequence[RequestView], budgets: list[Budget], relative_cost: float
    ) -> None:
        """Now and then ask for the request that was left out longest.

        ``relative_cost`` is the time of asking over that of a step.
        """
        self._num_steps += 1
        left_out = [index for index, budget in enumerate(budgets) if not budget.max_nodes]
        if not left_out or not self._share or self._num_steps < self._interval(relative_cost):
            return
        longest = max(left_out, key=lambda index: views[index].steps_since_asked)
        budgets[longest] = Budget(views[longest].max_nodes)
        self._num_unsold += 1
        self._num_steps = 0

    def _interval(self, relative_cost: float) -> int:
        interval = max(math.ceil(relative_cost / self._share), MIN_INTERVAL)
        interval <<= min(self._num_unsold // UNSOLD_PER_DOUBLING, MAX_DOUBLINGS)
        return min(interval, MAX_INTERVAL)
