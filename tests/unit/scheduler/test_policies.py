"""What each policy asks for and buys."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import replace

import pytest

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.fixed import FixedPolicy
from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
)
from dspark.scheduler.policy.threshold import (
    BUY_INTERVAL,
    EXPLORE_NODES,
    MAX_EXPLORE_INTERVAL,
    ThresholdPolicy,
)
from dspark.token_tree import TokenTree, chain

FLAT = CostTable([(1, 20.0), (512, 20.0)])
STEEP = CostTable([(1, 20.0), (2, 40.0), (512, 10_220.0)])
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


def scored(*scores: float, explore: bool = False) -> ScoredTree:
    """A chain with these conditional scores."""
    tree = replace(chain(range(len(scores)), "a"), scores=scores)
    return ScoredTree(tree, tree.survivals, explore)


def view(*profile: float, max_nodes: int = 15, steps_since_asked: int = 1) -> RequestView:
    return RequestView(max_nodes, (profile,), steps_since_asked)


def random_tree(generator: random.Random) -> ScoredTree:
    size = generator.randrange(1, 8)
    parents = tuple(generator.randrange(node + 1) for node in range(size))
    scores = tuple(generator.uniform(0.05, 0.99) for _ in range(size))
    tree = TokenTree(tuple(range(size)), parents, (1,) * size, scores, ("a",))
    return ScoredTree(tree, tree.survivals)


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


def test_threshold_buys_nothing_without_a_table_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = ThresholdPolicy(SETTINGS)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            assert policy.budget([view(0.99)], context(None)) == [Budget()]
    assert policy.select([scored(0.99)], context(None)) == [TokenTree()]
    assert len(caplog.records) == 1


def test_threshold_buys_what_costs_nothing() -> None:
    policy = ThresholdPolicy(SETTINGS)
    assert policy.budget([view(0.9, 0.5)], context())[0].max_nodes >= 2
    (tree,) = policy.select([scored(0.9, 0.5, 0.5)], context())
    assert len(tree) == 3


def test_threshold_buys_nothing_where_rows_are_dear() -> None:
    policy = ThresholdPolicy(SETTINGS)
    assert policy.budget([view(0.9, 0.8)], context(STEEP)) == [Budget()]
    assert policy.select([scored(0.9, 0.8)], context(STEEP)) == [TokenTree()]


def test_threshold_does_not_bother_for_a_small_gain() -> None:
    (tree,) = ThresholdPolicy(SETTINGS).select([scored(0.02)], context())
    assert not tree
    (tree,) = ThresholdPolicy(PolicySettings(min_gain=0.0)).select([scored(0.02)], context())
    assert len(tree) == 1


def test_threshold_looks_beyond_the_first_descent_of_a_staircase() -> None:
    # Rows 3 to 16 all cost 30: a second row does not pay for the stair, fifteen do.
    stairs = CostTable([(1, 20.0), (2, 30.0), (16, 30.0), (17, 60.0), (32, 60.0)])
    tree = scored(*[0.93] * 20)
    one = ThresholdPolicy(SETTINGS).select([scored(0.4)], context(stairs))
    many = ThresholdPolicy(SETTINGS).select([tree], context(stairs))
    assert [len(t) for t in one] == [0]
    assert [len(t) for t in many] == [15]


@pytest.mark.parametrize("seed", range(30))
def test_threshold_finds_the_best_of_all_prefix_closed_choices(seed: int) -> None:
    generator = random.Random(seed)
    trees = [random_tree(generator) for _ in range(2)]
    points = [(rows, generator.uniform(5, 60)) for rows in range(1, 20, 2)]
    costs = CostTable(points)
    step = context(costs, num_requests=2)
    chosen = ThresholdPolicy(PolicySettings(min_gain=0.0)).select(trees, step)

    def rate(tokens: float, count: int) -> float:
        return (2 + tokens) / (step.overhead_ms + step.propose_ms + costs.ms(2 + count))

    bought = sum(sum(tree.survivals) for tree in chosen)
    found = rate(bought, sum(len(tree) for tree in chosen))
    best = max(
        rate(sum(a) + sum(b), len(a) + len(b))
        for a, b in itertools.product(*(prefix_closed(t) for t in trees))
    )
    assert found == pytest.approx(best)


def prefix_closed(scored_tree: ScoredTree) -> list[list[float]]:
    """Survivals of every set of nodes that has all their parents."""
    tree, survivals = scored_tree.tree, scored_tree.survivals
    sets = []
    for bits in itertools.product((0, 1), repeat=len(tree)):
        kept = {node for node, bit in enumerate(bits) if bit}
        if all(tree.parents[n] == 0 or tree.parents[n] - 1 in kept for n in kept):
            sets.append([survivals[n] for n in kept])
    return sets


def test_threshold_gives_the_rows_to_the_request_that_uses_them() -> None:
    stairs = CostTable([(1, 20.0), (6, 20.0), (7, 50.0), (64, 50.0)])
    chosen = ThresholdPolicy(SETTINGS).select(
        [scored(0.9, 0.9, 0.9, 0.9), scored(0.1)], context(stairs, num_requests=2)
    )
    assert [len(tree) for tree in chosen] == [4, 0]


def test_threshold_asks_no_more_where_proposing_cannot_pay() -> None:
    slow = replace(context(), propose_ms=50.0)
    assert ThresholdPolicy(SETTINGS).budget([view(0.9)], slow) == [Budget()]


def test_threshold_asks_for_rare_good_proposals() -> None:
    profiles = ((0.9, 0.9, 0.9, 0.9), *[()] * 7)
    (budget,) = ThresholdPolicy(SETTINGS).budget([RequestView(15, profiles, 1)], context())
    assert budget == Budget(10)


def test_threshold_explores_what_is_priced_out_now_and_then() -> None:
    policy = ThresholdPolicy(SETTINGS)
    views = [view(0.01, steps_since_asked=5), view(0.01, steps_since_asked=9)]
    steps = [policy.budget(views, context(STEEP, 2)) for _ in range(8 * MAX_EXPLORE_INTERVAL)]
    explored = [budgets for budgets in steps if any(b.max_nodes for b in budgets)]
    assert 8 <= len(explored) <= len(steps) // 4
    assert all(not first.max_nodes and second.max_nodes == 15 for first, second in explored)
    buys = [second.explore for _, second in explored]
    assert buys[:BUY_INTERVAL] == [False] * (BUY_INTERVAL - 1) + [True]


def test_threshold_explores_less_while_nothing_sells_and_more_after_a_sale() -> None:
    policy = ThresholdPolicy(PolicySettings())
    hopeless, hopeful = [view(0.01)] * 2, [view(0.95, 0.9, 0.85)] * 2

    def num_explorations(steps: int) -> int:
        budgets = (policy.budget(hopeless, context(STEEP)) for _ in range(steps))
        return sum(any(b.max_nodes for b in step) for step in budgets)

    first, later = num_explorations(60), [num_explorations(300) for _ in range(3)][-1] / 5
    assert 0 < later < first / 2
    assert all(b.max_nodes for b in policy.budget(hopeful, context(FLAT)))
    assert num_explorations(60) == first


def test_threshold_buys_a_few_nodes_that_do_not_pay_when_it_explores() -> None:
    policy = ThresholdPolicy(SETTINGS)
    (bought,) = policy.select([scored(*[0.01] * 9, explore=True)], context(STEEP))
    assert len(bought) == EXPLORE_NODES


def test_threshold_never_explores_with_no_share_for_it() -> None:
    policy = ThresholdPolicy(PolicySettings(explore_share=0.0))
    for _ in range(10 * MAX_EXPLORE_INTERVAL):
        assert policy.budget([view(0.01)], context(STEEP)) == [Budget()]
