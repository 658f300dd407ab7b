"""What a policy would have made of logged steps (pure).

Each step is decided anew on what was offered in it, and gets the tokens that the offered trees are
known to have been right about. The steps themselves stay those of the log: another policy would
have stood at other places of the same texts. And a request that was not asked for then has nothing
to offer now: such askings are counted. A log of policy ``fixed`` with many nodes has them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.decision_log import LoggedStep, Offer
from dspark.scheduler.policy.interface import (
    Budget,
    RequestView,
    ScoredTree,
    SpeculationPolicy,
    StepContext,
)
from dspark.scheduler.profiles import Profiles
from dspark.token_tree import TokenTree

# Requests whose recent offers are remembered.
MAX_REQUESTS = 4096


@dataclass(slots=True)
class ReplayTotals:
    """Sums over the steps. ``unknown`` counts askings for which the log has no offer."""

    steps: int = 0
    committing: int = 0
    tokens: int = 0
    nodes: int = 0
    ms: float = 0.0
    asked: int = 0
    unknown: int = 0

    @property
    def tokens_per_s(self) -> float:
        return 1e3 * self.tokens / self.ms if self.ms else 0.0

    @property
    def acceptance_length(self) -> float:
        """Tokens of a request's pass, the bonus token among them."""
        return self.tokens / max(1, self.committing)

    @property
    def nodes_per_pass(self) -> float:
        return self.nodes / max(1, self.committing)


class DecisionReplay:
    """Feeds logged steps to one policy."""

    def __init__(self, policy: SpeculationPolicy, max_nodes: int = 15) -> None:
        """``max_nodes`` is how many a request without offers so far hopes for."""
        self.totals = ReplayTotals()
        self._policy = policy
        # by how freely tokens are drawn
        self._latest = defaultdict[int, Profiles](partial(Profiles.hopeful, max_nodes))
        self._profiles: dict[str, Profiles] = {}
        self._asked_at: dict[str, int] = {}

    def run(self, steps: Iterable[LoggedStep]) -> ReplayTotals:
        for step in steps:
            self._step(step)
        return self.totals

    def _step(self, step: LoggedStep) -> None:
        totals = self.totals
        totals.steps += 1
        totals.committing += step.num_committing
        totals.tokens += step.num_committing
        context = _context(step)
        budgets = self._policy.budget([self._view(offer) for offer in step.offers], context)
        asked = [(o, b) for o, b in zip(step.offers, budgets, strict=True) if b.max_nodes]
        num_nodes = self._buy(asked, context) if asked else 0
        totals.nodes += num_nodes
        costs = context.costs
        totals.ms += step.overhead_ms
        totals.ms += 0.0 if costs is None else costs.ms(step.num_rows + num_nodes)

    def _buy(self, asked: Sequence[tuple[Offer, Budget]], context: StepContext) -> int:
        """Returns how many nodes the policy verifies."""
        totals = self.totals
        propose_ms = context.propose_ms + sum(offer.propose_ms for offer, _ in asked)
        totals.ms += propose_ms
        scored = [_scored(offer, budget) for offer, budget in asked]
        for (offer, _), tree in zip(asked, scored, strict=True):
            totals.asked += 1
            totals.unknown += not offer.asked
            self._remember(offer, tree)
        chosen = self._policy.select(scored, replace(context, propose_ms=propose_ms))
        for (offer, _), kept in zip(asked, chosen, strict=True):
            totals.tokens += _num_right(offer, kept)
        return sum(map(len, chosen))

    def _view(self, offer: Offer) -> RequestView:
        profiles = self._profiles.get(offer.request_id, self._latest[offer.temperature_bin])
        since = self.totals.steps - self._asked_at.get(offer.request_id, 0)
        return RequestView(offer.max_nodes, profiles.latest(), since, offer.propose_ms)

    def _remember(self, offer: Offer, tree: ScoredTree) -> None:
        name, latest = offer.request_id, self._latest[offer.temperature_bin]
        if name not in self._profiles:
            if len(self._profiles) >= MAX_REQUESTS:
                self._profiles.pop(next(iter(self._profiles)))
            self._profiles[name] = Profiles(latest.latest())
        latest.add(self._profiles[name].remember(tree.survivals))
        self._asked_at[name] = self.totals.steps


def _context(step: LoggedStep) -> StepContext:
    rows = [(step.num_rows + count, ms) for count, ms in enumerate(step.row_ms)]
    own_ms = sum(offer.propose_ms for offer in step.offers)
    return StepContext(
        step.num_rows,
        step.num_committing,
        step.max_nodes,
        step.overhead_ms,
        max(0.0, step.propose_ms - own_ms),
        CostTable(rows) if rows else None,
        step.num_decoding,
        step.decoding_ms,
        step.prompts_wait,
    )


def _scored(offer: Offer, budget: Budget) -> ScoredTree:
    """What candidates would have offered within the budget: the first of the nodes."""
    size = min(len(offer.parents), budget.max_nodes)
    tree = TokenTree(
        # Only the shape of a tree is logged; its nodes are told apart by their numbers.
        tuple(range(size)),
        offer.parents[:size],
        offer.masks[:size],
        offer.scores[:size],
        offer.sources,
    )
    return ScoredTree(tree, offer.survivals[:size])


def _num_right(offer: Offer, chosen: TokenTree) -> int:
    kept = set(chosen.token_ids)
    count = 0
    for node in offer.path:
        if node not in kept:
            break
        count += 1
    return count
