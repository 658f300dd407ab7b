"""Buys whatever is worth more tokens than its milliseconds are.

The price of a millisecond is what it brings on average: the rate of plain decoding at the present
batch, times the gain over it that recent steps had. Rows are bought by survival over all requests
as long as they are worth their time at this price; candidates are asked where what recent proposals
would have sold, at this price, is worth the time of asking.

Prompts have no part in that rate. They are work that is due for each request, so who ends sooner
brings the next prompt sooner: what counts is how fast the time between them is turned into tokens.
Where prompts wait though there are places, their rows decide how many requests get on, and nodes
would only have more places wait: then none are bought.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.policy.exploration import Exploration
from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
    best_nodes,
    keep,
)
from dspark.scheduler.policy.purchase import best_purchase, least_survival
from dspark.scheduler.stats import MovingAverage
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

# A proposal may turn out better than the last ones, so more is asked for than they would have sold,
# and nodes somewhat below the price are wanted.
ASK_FACTOR = 2
ASK_EXTRA = 2
SURVIVAL_SLACK = 0.5
# The gain is an average over about so many steps.
GAIN_STEPS = 32
MAX_PRICED_ROWS = 64
# Recent proposals that are priced, for a few requests and for many: each costs time in every step.
NUM_SCENARIOS = 8
NUM_SCENARIOS_OF_MANY = 4
MANY = 4


class _Offer(NamedTuple):
    """What a request's next proposal is expected to sell."""

    surplus: float = 0.0
    most_nodes: int = 0


class EconomicPolicy:
    """Maximises committed tokens per millisecond; without a measured cost table it buys nothing."""

    is_off = False

    def __init__(self, settings: PolicySettings) -> None:
        self._min_gain = settings.min_gain
        self._exploration = Exploration(settings.explore_share)
        self._gain = MovingAverage(1.0, 1 / GAIN_STEPS)
        self._said_no_table = False
        self.price = 0.0

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        costs = context.costs
        if costs is None:
            self._say_no_table()
        if costs is None or not views or not context.max_nodes:
            return [Budget()] * len(views)
        price = self._price_of(context, costs)
        budgets = [Budget()] * len(views)
        if not context.prompts_wait:
            budgets = self._worth_asking(views, context, costs, price)
        dearest_ms = context.propose_ms + max(view.propose_ms for view in views)
        self._exploration.explore(views, budgets, dearest_ms / _plain_ms(context, costs))
        if not any(budget.max_nodes for budget in budgets):
            self._gain.add(1.0)
        return budgets

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        costs = context.costs
        if costs is None:
            return [TokenTree()] * len(trees)
        price = self._price_of(context, costs)
        nodes = best_nodes(trees)[: context.max_nodes]
        survivals = [survival for survival, _, _ in nodes]
        bought = best_purchase(survivals, context.num_rows, costs, price)
        plain = _plain(context, costs)
        took_ms = plain.ms + context.propose_ms + bought.ms
        self._gain.add((plain.tokens + bought.tokens) / took_ms / plain.rate)
        chosen: list[list[int]] = [[] for _ in trees]
        for _, index, node in nodes[: bought.num_nodes]:
            chosen[index].append(node)
        return keep(trees, chosen)

    def _worth_asking(
        self, views: Sequence[RequestView], context: StepContext, costs: CostTable, price: float
    ) -> list[Budget]:
        least = _least_survival(context, costs, price)
        # All that is asked for shares one call: it must be worth that call.
        needed = price * context.propose_ms + self._min_gain * _plain(context, costs).tokens
        nothing = [Budget()] * len(views)
        num_scenarios = NUM_SCENARIOS if len(views) <= MANY else NUM_SCENARIOS_OF_MANY
        if sum(_most_gain(view, least, price, num_scenarios) for view in views) <= needed:
            return nothing
        offers = _offers(views, context, costs, price, num_scenarios)
        gains = [o.surplus - price * v.propose_ms for o, v in zip(offers, views, strict=True)]
        if sum(gain for gain in gains if gain > 0) <= needed:
            return nothing
        self._exploration.sold()
        return [
            _budget(view, offer, SURVIVAL_SLACK * least) if gain > 0 else Budget()
            for view, offer, gain in zip(views, offers, gains, strict=True)
        ]

    def _price_of(self, context: StepContext, costs: CostTable) -> float:
        """Tokens a millisecond."""
        self.price = _plain(context, costs).rate * max(1.0, self._gain.value)
        return self.price

    def _say_no_table(self) -> None:
        if not self._said_no_table:
            self._said_no_table = True
            log.warning("the verifier measured no cost table: no speculation")


class _Plain(NamedTuple):
    """What the step's requests get of decoding plainly, and the time of that."""

    tokens: int
    ms: float

    @property
    def rate(self) -> float:
        """Tokens a millisecond."""
        return self.tokens / self.ms


def _plain(context: StepContext, costs: CostTable) -> _Plain:
    if context.num_decoding:
        return _Plain(context.num_decoding, context.overhead_ms + context.decoding_ms)
    return _Plain(max(context.num_committing, 1), _plain_ms(context, costs))


def _plain_ms(context: StepContext, costs: CostTable) -> float:
    return context.overhead_ms + costs.ms(context.num_rows)


def _least_survival(context: StepContext, costs: CostTable, price: float) -> float:
    max_nodes = min(context.max_nodes, MAX_PRICED_ROWS)
    return least_survival(context.num_rows, max_nodes, costs, price)


def _most_gain(view: RequestView, least: float, price: float, num_scenarios: int) -> float:
    """At most so many tokens more than its time are worth come of asking for this request.

    That is if its rows were as cheap as any. It takes far less time than pricing them, and mostly
    says enough where nothing pays.
    """
    surplus = 0.0
    for scenario in range(1, num_scenarios + 1):
        for survival in view.profile(scenario)[: view.max_nodes]:
            if survival <= least:
                break
            surplus += survival - least
    return max(0.0, surplus / num_scenarios - price * view.propose_ms)


def _budget(view: RequestView, offer: _Offer, least: float) -> Budget:
    wanted = ASK_FACTOR * offer.most_nodes + ASK_EXTRA
    return Budget(min(view.max_nodes, wanted), least)


def _offers(
    views: Sequence[RequestView],
    context: StepContext,
    costs: CostTable,
    price: float,
    num_scenarios: int,
) -> list[_Offer]:
    """What each request is expected to sell, if all that pays is bought.

    A scenario takes the proposals that the requests had so many askings ago, and buys of them what
    the step would have bought: so requests share rows as they are going to.
    """
    surplus = [0.0] * len(views)
    most = [0] * len(views)
    for scenario in range(1, num_scenarios + 1):
        nodes = [
            (survival, index)
            for index, view in enumerate(views)
            for survival in view.profile(scenario)[: view.max_nodes]
        ]
        nodes.sort(reverse=True)
        del nodes[min(context.max_nodes, MAX_PRICED_ROWS) :]
        survivals = [survival for survival, _ in nodes]
        bought = best_purchase(survivals, context.num_rows, costs, price)
        if not bought.num_nodes:
            continue
        row_price = price * bought.ms / bought.num_nodes
        counts = [0] * len(views)
        for survival, index in nodes[: bought.num_nodes]:
            counts[index] += 1
            surplus[index] += (survival - row_price) / num_scenarios
        most = [max(pair) for pair in zip(most, counts, strict=True)]
    return [_Offer(*pair) for pair in zip(surplus, most, strict=True)]
