"""Buys the number of nodes that makes committed tokens per millisecond largest.

All nodes of all requests are sorted by survival; the first B of them are worth
(R + sum of their survivals) / (overhead + T(rows + B)) tokens a millisecond, with R tokens
committed without any and T the measured cost table. T may be a staircase, so every B is tried.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
    best_nodes,
    keep,
)
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

MIN_EXPLORE_INTERVAL = 4
MAX_EXPLORE_INTERVAL = 64
# While nothing sells, exploring is worth less: after so many explorations without a sale its
# interval doubles, a few times at most, since texts change.
UNSOLD_PER_DOUBLING = 8
MAX_DOUBLINGS = 3
# Asking alone shows whether candidates got better, only verifying whether scores are right. So
# every so many explorations some nodes are bought that do not pay.
BUY_INTERVAL = 4
EXPLORE_NODES = 3
# A proposal may turn out better than the last ones, so more is asked for than they would have sold.
MAX_PRICED_ROWS = 64
ASK_FACTOR = 2
ASK_EXTRA = 2


class ThresholdPolicy:
    """Buys by predicted gain; without a measured cost table it buys nothing."""

    is_off = False

    def __init__(self, settings: PolicySettings) -> None:
        self._min_gain = settings.min_gain
        self._explore_share = settings.explore_share
        self._steps_since_explored = 0
        self._num_explorations = 0
        self._num_unsold = 0
        self._said_no_table = False
        self.price = 0.0

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        costs = context.costs
        if costs is None:
            self._say_no_table()
        if costs is None or not views or not context.max_nodes:
            return [Budget()] * len(views)
        plain_ms = context.overhead_ms + costs.ms(context.num_rows)
        price = self.price = context.num_committing / plain_ms
        prices = _prices_of_rows(costs, context, price)
        offers = [_expected_sale(view, prices) for view in views]
        budgets = [Budget()] * len(views)
        # All that is asked for shares one call: it must be worth that call.
        needed = price * context.propose_ms + self._min_gain * context.num_committing
        if sum(gain for gain, _ in offers) > needed:
            self._num_unsold = 0
            budgets = [
                Budget(min(view.max_nodes, ASK_FACTOR * count + ASK_EXTRA) if count else 0)
                for view, (_, count) in zip(views, offers, strict=True)
            ]
        self._explore(views, budgets, context.propose_ms / plain_ms)
        return budgets

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        nodes = best_nodes(trees)[: context.max_nodes]
        survivals = [survival for survival, _, _ in nodes]
        count = self._best_count(survivals, context)
        chosen: list[list[int]] = [[] for _ in trees]
        for position, (_, index, node) in enumerate(nodes):
            explores = trees[index].explore and len(chosen[index]) < EXPLORE_NODES
            if position < count or explores:
                chosen[index].append(node)
        return keep(trees, chosen)

    def _best_count(self, survivals: Sequence[float], context: StepContext) -> int:
        """The best number of first nodes; 0 unless it gains min_gain over none."""
        costs = context.costs
        if costs is None:
            return 0
        # The proposals are paid for already, whatever is bought of them.
        fixed_ms = context.overhead_ms + context.propose_ms
        tokens = float(context.num_committing)
        best, best_rate = 0, tokens / (fixed_ms + costs.ms(context.num_rows)) * (1 + self._min_gain)
        for count, survival in enumerate(survivals, start=1):
            tokens += survival
            rate = tokens / (fixed_ms + costs.ms(context.num_rows + count))
            if rate > best_rate:
                best, best_rate = count, rate
        return best

    def _explore(
        self, views: Sequence[RequestView], budgets: list[Budget], relative_cost: float
    ) -> None:
        """Now and then ask for the request that was left out longest.

        ``relative_cost`` is the time of asking over that of a step; the interval is such that
        explorations take ``explore_share`` of the time, and less of it while nothing sells.
        """
        self._steps_since_explored += 1
        left_out = [index for index, budget in enumerate(budgets) if not budget.max_nodes]
        if not left_out or not self._explore_share:
            return
        interval = max(math.ceil(relative_cost / self._explore_share), MIN_EXPLORE_INTERVAL)
        interval <<= min(self._num_unsold // UNSOLD_PER_DOUBLING, MAX_DOUBLINGS)
        if self._steps_since_explored < min(interval, MAX_EXPLORE_INTERVAL):
            return
        longest = max(left_out, key=lambda index: views[index].steps_since_asked)
        buys = self._num_explorations % BUY_INTERVAL == BUY_INTERVAL - 1
        budgets[longest] = Budget(views[longest].max_nodes, explore=buys)
        self._num_explorations += 1
        self._num_unsold += 1
        self._steps_since_explored = 0

    def _say_no_table(self) -> None:
        if not self._said_no_table:
            self._said_no_table = True
            log.warning("the verifier measured no cost table: no speculation")


def _prices_of_rows(costs: CostTable, context: StepContext, price: float) -> list[float]:
    """Tokens that 0, 1, 2... more rows must bring, each request seen alone."""
    plain_ms = costs.ms(context.num_rows)
    counts = range(min(context.max_nodes, MAX_PRICED_ROWS) + 1)
    return [price * (costs.ms(context.num_rows + count) - plain_ms) for count in counts]


def _expected_sale(view: RequestView, prices: Sequence[float]) -> tuple[float, int]:
    """Mean gain in tokens over the recent proposals, and the most nodes one would have sold."""
    total_gain, most = 0.0, 0
    for profile in view.profiles:
        tokens, best_gain, best = 0.0, 0.0, 0
        offered = zip(profile[: view.max_nodes], prices[1:], strict=False)
        for count, (survival, row_price) in enumerate(offered, start=1):
            tokens += survival
            if tokens - row_price > best_gain:
                best_gain, best = tokens - row_price, count
        total_gain += best_gain
        most = max(most, best)
    return total_gain / max(len(view.profiles), 1), most
