"""What the economic policy asks for and buys at its price."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import replace

import pytest

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.policy import economic
from dspark.scheduler.policy.economic import EconomicPolicy
from dspark.scheduler.policy.exploration import MAX_INTERVAL
from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
)
from dspark.scheduler.policy.purchase import best_purchase, least_survival
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


def scored(*scores: float) -> ScoredTree:
    """A chain with these conditional scores."""
    tree = replace(chain(range(len(scores)), "a"), scores=scores)
    return ScoredTree(tree, tree.survivals)


def view(*profile: float, steps_since_asked: int = 1, propose_ms: float = 0.0) -> RequestView:
    return RequestView(15, (profile,), steps_since_asked, propose_ms)


def random_tree(generator: random.Random) -> ScoredTree:
    size = generator.randrange(1, 8)
    parents = tuple(generator.randrange(node + 1) for node in range(size))
    scores = tuple(generator.uniform(0.05, 0.99) for _ in range(size))
    tree = TokenTree(tuple(range(size)), parents, (1,) * size, scores, ("a",))
    return ScoredTree(tree, tree.survivals)


def prefix_closed(scored_tree: ScoredTree) -> list[list[float]]:
    """Survivals of every set of nodes that has all their parents."""
    tree, survivals = scored_tree.tree, scored_tree.survivals
    sets = []
    for bits in itertools.product((0, 1), repeat=len(tree)):
        kept = {node for node, bit in enumerate(bits) if bit}
        if all(tree.parents[n] == 0 or tree.parents[n] - 1 in kept for n in kept):
            sets.append([survivals[n] for n in kept])
    return sets


def test_prompts_in_the_step_do_not_make_nodes_cheaper() -> None:
    """A pass of 20 ms for a request that decodes: 200 rows of prompts change nothing of that."""
    costs = CostTable([(1, 20.0), (401, 420.0)])
    alone = context(costs)
    beside = replace(alone, num_rows=201, num_committing=2, num_decoding=1, decoding_ms=20.0)
    policies = EconomicPolicy(SETTINGS), EconomicPolicy(SETTINGS)
    for policy, step in zip(policies, (alone, beside), strict=True):
        policy.budget([view(0.5)], step)
    assert policies[1].price == policies[0].price == pytest.approx(1 / 22)
    # A row takes 1 ms wherever it is.
    for survivals in ([0.9, 0.4], [0.06], [0.04]):
        bought = [
            p.select([scored(*survivals)], s)
            for p, s in zip(policies, (alone, beside), strict=True)
        ]
        assert bought[0] == bought[1]
    assert policies[1].price == policies[0].price


def test_nothing_is_bought_while_prompts_wait_for_rows() -> None:
    policy = EconomicPolicy(replace(SETTINGS, explore_share=0.0))
    assert policy.budget([view(0.9, 0.8)], context())[0].max_nodes
    waiting = replace(context(), prompts_wait=True)
    assert policy.budget([view(0.9, 0.8)], waiting) == [Budget()]


def test_without_a_table_it_buys_nothing_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = EconomicPolicy(SETTINGS)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            assert policy.budget([view(0.99)], context(None)) == [Budget()]
    assert policy.select([scored(0.99)], context(None)) == [TokenTree()]
    assert len(caplog.records) == 1


def test_it_buys_what_costs_nothing() -> None:
    policy = EconomicPolicy(SETTINGS)
    assert policy.budget([view(0.9, 0.5)], context())[0].max_nodes >= 2
    (tree,) = policy.select([scored(0.9, 0.5, 0.5)], context())
    assert len(tree) == 3


def test_it_buys_nothing_where_rows_are_dear() -> None:
    policy = EconomicPolicy(SETTINGS)
    assert policy.budget([view(0.9, 0.8)], context(STEEP)) == [Budget()]
    assert policy.select([scored(0.9, 0.8)], context(STEEP)) == [TokenTree()]


def test_it_does_not_ask_for_a_small_gain() -> None:
    cheap = replace(context(), propose_ms=0.0)
    assert EconomicPolicy(PolicySettings(min_gain=0.05)).budget([view(0.04)], cheap) == [Budget()]
    (budget,) = EconomicPolicy(PolicySettings(min_gain=0.0)).budget([view(0.04)], cheap)
    assert budget.max_nodes


def test_it_looks_beyond_the_first_descent_of_a_staircase() -> None:
    # Rows 2 to 16 all cost 30: a second row does not pay for the stair, fifteen do.
    stairs = CostTable([(1, 20.0), (2, 30.0), (16, 30.0), (17, 60.0), (32, 60.0)])
    one = EconomicPolicy(SETTINGS).select([scored(0.4)], context(stairs))
    many = EconomicPolicy(SETTINGS).select([scored(*[0.93] * 20)], context(stairs))
    assert [len(t) for t in one] == [0]
    assert [len(t) for t in many] == [15]


@pytest.mark.parametrize("seed", range(30))
def test_a_purchase_is_the_best_of_all_prefix_closed_choices(seed: int) -> None:
    generator = random.Random(seed)
    trees = [random_tree(generator) for _ in range(2)]
    costs = CostTable([(rows, generator.uniform(5, 60)) for rows in range(1, 20, 2)])
    price = generator.uniform(0.02, 0.2)
    survivals = sorted((s for tree in trees for s in tree.survivals), reverse=True)
    found = best_purchase(survivals, 2, costs, price)

    def surplus(tokens: float, count: int) -> float:
        return tokens - price * (costs.ms(2 + count) - costs.ms(2))

    best = max(
        surplus(sum(a) + sum(b), len(a) + len(b))
        for a, b in itertools.product(*(prefix_closed(t) for t in trees))
    )
    assert found.surplus(price) == pytest.approx(best)


def test_no_node_below_the_least_survival_is_worth_its_share_of_any_rows() -> None:
    stairs = CostTable([(1, 20.0), (2, 30.0), (16, 30.0), (17, 60.0), (32, 60.0)])
    least = least_survival(1, 15, stairs, price=0.1)
    assert least == pytest.approx(0.1 * 10.0 / 15)
    assert best_purchase([least * 0.99] * 15, 1, stairs, 0.1).num_nodes == 0
    assert best_purchase([least * 1.01] * 15, 1, stairs, 0.1).num_nodes == 15


def test_the_rows_go_to_the_request_that_uses_them() -> None:
    stairs = CostTable([(1, 20.0), (6, 20.0), (7, 50.0), (64, 50.0)])
    chosen = EconomicPolicy(SETTINGS).select(
        [scored(0.9, 0.9, 0.9, 0.9), scored(0.1)], context(stairs, num_requests=2)
    )
    assert [len(tree) for tree in chosen] == [4, 0]


def test_only_those_are_asked_who_use_the_rows() -> None:
    costs = CostTable([(1, 20.0), (512, 2_064.0)])
    views = [view(0.95, 0.9, 0.85, 0.8), view(0.05)]
    first, second = EconomicPolicy(SETTINGS).budget(views, context(costs, num_requests=2))
    assert first.max_nodes >= 4 and first.min_survival > 0 and second == Budget()


def test_who_costs_more_to_ask_than_it_brings_is_left_out() -> None:
    views = [view(0.9, 0.8), view(0.9, 0.8, propose_ms=100.0)]
    first, second = EconomicPolicy(SETTINGS).budget(views, context(num_requests=2))
    assert first.max_nodes and not second.max_nodes


def test_it_asks_no_more_where_proposing_cannot_pay() -> None:
    slow = replace(context(), propose_ms=50.0)
    assert EconomicPolicy(SETTINGS).budget([view(0.9)], slow) == [Budget()]


def test_it_asks_for_rare_good_proposals() -> None:
    profiles = (*[()] * 7, (0.9, 0.9, 0.9, 0.9))
    (budget,) = EconomicPolicy(SETTINGS).budget([RequestView(15, profiles, 1)], context())
    assert budget.max_nodes == 10


def test_time_is_dearer_where_it_brings_more() -> None:
    costs = CostTable([(1, 20.0), (64, 20.0 + 63 * 4.0)])
    policy = EconomicPolicy(SETTINGS)
    poor = [len(tree) for tree in policy.select([scored(0.25)], context(costs))]
    for _ in range(200):
        policy.select([scored(*[0.98] * 8)], context(costs))
    assert policy.price > 1.5 / 22.0
    assert poor == [1]
    assert [len(tree) for tree in policy.select([scored(0.25)], context(costs))] == [0]


def test_what_is_priced_out_is_explored_now_and_then() -> None:
    policy = EconomicPolicy(SETTINGS)
    views = [view(0.01, steps_since_asked=5), view(0.01, steps_since_asked=9)]
    steps = [policy.budget(views, context(STEEP, 2)) for _ in range(8 * MAX_INTERVAL)]
    explored = [budgets for budgets in steps if any(b.max_nodes for b in budgets)]
    assert 8 <= len(explored) <= len(steps) // 4
    assert all(not first.max_nodes and second.max_nodes == 15 for first, second in explored)


def test_it_explores_less_while_nothing_sells_and_more_after_a_sale() -> None:
    policy = EconomicPolicy(PolicySettings())
    hopeless, hopeful = [view(0.01)] * 2, [view(0.95, 0.9, 0.85)] * 2

    def num_explorations(steps: int) -> int:
        budgets = (policy.budget(hopeless, context(STEEP)) for _ in range(steps))
        return sum(any(b.max_nodes for b in step) for step in budgets)

    first, later = num_explorations(60), [num_explorations(300) for _ in range(3)][-1] / 5
    assert 0 < later < first / 2
    assert all(b.max_nodes for b in policy.budget(hopeful, context(FLAT)))
    assert num_explorations(60) == first


def test_it_never_explores_with_no_share_for_it() -> None:
    policy = EconomicPolicy(PolicySettings(explore_share=0.0))
    for _ in range(10 * MAX_INTERVAL):
        assert policy.budget([view(0.01)], context(STEEP)) == [Budget()]


@pytest.mark.parametrize("seed", range(40))
def test_the_quick_look_never_misses_what_pays(seed: int) -> None:
    generator = random.Random(seed)
    costs = CostTable([(rows, generator.uniform(5, 60)) for rows in range(1, 40, 3)])
    size = generator.choice((1, 3, 9))
    step = context(costs, num_requests=size)
    views = [
        RequestView(
            generator.randrange(1, 9),
            tuple(
                tuple(sorted((generator.random() for _ in range(6)), reverse=True))
                for _ in range(generator.randrange(1, 9))
            ),
            1,
            generator.uniform(0, 2),
        )
        for _ in range(size)
    ]
    price = generator.uniform(0.02, 0.5)
    least = economic._least_survival(step, costs, price)
    for num_scenarios in (4, 8):
        offers = economic._offers(views, step, costs, price, num_scenarios)
        for view, offer in zip(views, offers, strict=True):
            bound = economic._most_gain(view, least, price, num_scenarios)
            assert bound >= offer.surplus - price * view.propose_ms - 1e-9
