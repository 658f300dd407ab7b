"""Buys the number of nodes that makes committed tokens per millisecond largest.

All nodes of all requests are sorted by survival; the first B of them are worth
(R + sum of their survivals) / (overhead + T(rows + B)) tokens a millisecond, with R tokens
committed without any and T the measured cost table. T may be a staircase, so every B is tried.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

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

EXPLORE_NODES = 3
MIN_EXPLORE_INTERVAL = 4
MAX_EXPLORE_INTERVAL = 64
# A proposal may turn out better than the last ones, so more is asked for than they would have sold.
ASK_FACTOR = 2
ASK_EXTRA = 2


class ThresholdPolicy:
    """Buys by predicted gain; without a measured cost table it buys nothing."""

    is_off = False

    def __init__(self, settings: PolicySettings) -> None:
        self._min_gain = settings.min_gain
        self._explore_share = settings.explore_share
        self._steps_since_explored = 0
        self._said_no_table = False

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        if context.costs is None:
            self._say_no_table()
            return [Budget()] * len(views)
        if not views or not context.max_nodes:
            return [Budget()] * len(views)
        wanted = self._expected_sales(views, context)
        budgets = [
            Budget(min(view.max_nodes, ASK_FACTOR * count + ASK_EXTRA) if count else 0)
            for view, count in zip(views, wanted, strict=True)
        ]
        self._explore(views, context, budgets)
        return budgets

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        nodes = best_nodes(trees)[: context.max_nodes]
        survivals = [survival for survival, _, _ in nodes]
        # The proposals are paid for already, whatever is bought of them.
        count = self._best_count(survivals, context, context.propose_ms, context.propose_ms)
        chosen: list[list[int]] = [[] for _ in trees]
        for position, (_, index, node) in enumerate(nodes):
            explores = trees[index].explore and len(chosen[index]) < EXPLORE_NODES
            if position < count or explores:
                chosen[index].append(node)
        return keep(trees, chosen)

    def _expected_sales(self, views: Sequence[RequestView], context: StepContext) -> list[int]:
        """How many nodes of each request would be bought if proposals are like the recent ones."""
        offers = [
            (survival, index)
            for index, view in enumerate(views)
            for survival in view.profile[: view.max_nodes]
        ]
        offers.sort(key=lambda offer: -offer[0])
        survivals = [survival for survival, _ in offers[: context.max_nodes]]
        counts = [0] * len(views)
        for _, index in offers[: self._best_count(survivals, context, 0.0, context.propose_ms)]:
            counts[index] += 1
        return counts

    def _best_count(
        self,
        survivals: Sequence[float],
        context: StepContext,
        plain_extra_ms: float,
        extra_ms: float,
    ) -> int:
        """The best number of first nodes; 0 unless it gains min_gain over none.

        ``plain_extra_ms`` is added to the time of a step without candidates, ``extra_ms`` to one
        with.
        """
        costs = context.costs
        if costs is None:
            return 0
        rows, overhead = context.num_rows, context.overhead_ms
        plain_ms = overhead + plain_extra_ms + costs.ms(rows)
        tokens = float(context.num_committing)
        best, best_rate = 0, tokens / plain_ms * (1 + self._min_gain)
        for count, survival in enumerate(survivals, start=1):
            tokens += survival
            rate = tokens / (overhead + extra_ms + costs.ms(rows + count))
            if rate > best_rate:
                best, best_rate = count, rate
        return best

    def _explore(
        self, views: Sequence[RequestView], context: StepContext, budgets: list[Budget]
    ) -> None:
        """Now and then ask for the request that was left out longest."""
        if not self._explore_share:
            return
        self._steps_since_explored += 1
        left_out = [index for index, budget in enumerate(budgets) if not budget.max_nodes]
        if not left_out or self._steps_since_explored < self._explore_interval(context):
            return
        longest = max(left_out, key=lambda index: views[index].steps_since_asked)
        budgets[longest] = Budget(views[longest].max_nodes, explore=True)
        self._steps_since_explored = 0

    def _explore_interval(self, context: StepContext) -> int:
        """Steps between explorations such that they take ``explore_share`` of the time."""
        if context.costs is None:
            return MAX_EXPLORE_INTERVAL
        plain_ms = context.costs.ms(context.num_rows)
        dearer_ms = context.costs.ms(context.num_rows + EXPLORE_NODES) - plain_ms
        step_ms = context.overhead_ms + plain_ms
        interval = math.ceil((context.propose_ms + dearer_ms) / (self._explore_share * step_ms))
        return min(max(interval, MIN_EXPLORE_INTERVAL), MAX_EXPLORE_INTERVAL)

    def _say_no_table(self) -> None:
        if not self._said_no_table:
            self._said_no_table = True
            log.warning("the verifier measured no cost table: no speculation")
