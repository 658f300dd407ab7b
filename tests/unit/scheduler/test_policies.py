"""What each policy asks for and buys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.policy import POLICIES, make_policy
from dspark.scheduler.policy.fixed import FixedPolicy
from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
)
from dspark.scheduler.policy.threshold import ThresholdPolicy
from dspark.token_tree import TokenTree, chain

FLAT = CostTable([(1, 20.0), (512, 20.0)])
SETTINGS = PolicySettings()


def context(costs: CostTable | None = FLAT, num_requests: int = 1) -> StepContext:
    return StepContext(
        num_rows=num_requests,
        num_committing=num_requests,
        max_nodes=100,
        overhead_ms=2.0,
        propose_ms=1.0,
        costs=costs,
    )


def scored(*scores: float, policy: str = "") -> ScoredTree:
    """A chain with these conditional scores."""
    tree = replace(chain(range(len(scores)), "a"), scores=scores)
    return ScoredTree(tree, tree.survivals, policy)


def view(*profile: float, max_nodes: int = 15, policy: str = "") -> RequestView:
    return RequestView(max_nodes, (profile,), 1, policy=policy)


def test_off_never_asks() -> None:
    policy = POLICIES["off"](SETTINGS)
    assert policy.is_off
    assert policy.budget([view(1.0)], context()) == [Budget()]
    assert policy.select([scored(0.9)], context()) == [TokenTree()]


def test_fixed_gives_each_request_its_k_best_nodes() -> None:
    policy = FixedPolicy(PolicySettings(num_draft_tokens=2))
    views = [view(max_nodes=15), view(max_nodes=1)]
    assert [b.max_nodes for b in policy.budget(views, context(None))] == [2, 1]
    chosen = policy.select([scored(0.9, 0.9, 0.9), scored(0.1)], context(None))
    assert [len(tree) for tree in chosen] == [2, 1]


def test_fixed_stays_within_the_rows_and_gives_them_to_the_best() -> None:
    policy = FixedPolicy(SETTINGS)
    tight = replace(context(None), max_nodes=3)
    chosen = policy.select([scored(0.2, 0.2), scored(0.9, 0.9)], tight)
    assert [len(tree) for tree in chosen] == [1, 2]
    assert policy.budget([view()], replace(tight, max_nodes=0)) == [Budget()]


def test_threshold_takes_all_that_is_likely_enough_and_nothing_else() -> None:
    policy = ThresholdPolicy(PolicySettings(min_survival=0.5))
    assert [b.max_nodes for b in policy.budget([view(max_nodes=9)], context(None))] == [9]
    chosen = policy.select([scored(0.9, 0.7, 0.7), scored(0.4)], context(None))
    assert [len(tree) for tree in chosen] == [2, 0]


def test_threshold_stays_within_the_rows() -> None:
    policy = ThresholdPolicy(PolicySettings(min_survival=0.1))
    tight = replace(context(None), max_nodes=3)
    chosen = policy.select([scored(0.5, 0.5), scored(0.9, 0.9)], tight)
    assert [len(tree) for tree in chosen] == [1, 2]
    assert policy.budget([view()], replace(tight, max_nodes=0)) == [Budget()]


def test_a_request_may_have_a_policy_of_its_own() -> None:
    policy = make_policy("fixed", PolicySettings(num_draft_tokens=2))
    views = [view(max_nodes=9), view(policy="off"), view(max_nodes=9, policy="threshold")]
    assert [b.max_nodes for b in policy.budget(views, context(None))] == [2, 0, 9]
    trees = [scored(0.1, 0.1, 0.1), scored(0.9, policy="off"), scored(0.9, policy="threshold")]
    assert [len(tree) for tree in policy.select(trees, context(None))] == [2, 0, 1]


def test_rows_of_requests_with_policies_of_their_own_are_gone_for_the_others() -> None:
    policy = make_policy("fixed", SETTINGS)
    tight = replace(context(None), max_nodes=3)
    trees = [scored(0.9, 0.9), scored(0.5, 0.9, policy="threshold")]
    assert [len(tree) for tree in policy.select(trees, tight)] == [1, 2]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_stays_within_what_it_may_have(name: str) -> None:
    policy = make_policy(name, SETTINGS)
    views = [view(0.9, 0.8, 0.7, max_nodes=2), view(0.9, 0.8, max_nodes=0)]
    assert all(
        budget.max_nodes <= each.max_nodes
        for budget, each in zip(policy.budget(views, context(num_requests=2)), views, strict=True)
    )
    tight = replace(context(num_requests=2), max_nodes=2)
    chosen = policy.select([scored(0.9, 0.9), scored(0.9, 0.9)], tight)
    assert sum(map(len, chosen)) <= 2
