"""How prompts share the rows of a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.fairness.prompt_budget import (
    ENOUGH,
    MIN_ROWS,
    STEP_MS,
    STRETCH,
    PromptBudget,
)
from dspark.scheduler.fairness.row_shares import (
    WantedRows,
    num_unfinished,
    prompt_rows,
    share_rows,
)
from dspark.step import VerifyCost

PROMPTS = st.lists(
    st.builds(
        WantedRows,
        rows=st.integers(1, 600),
        rank=st.tuples(st.integers(0, 1), st.integers(0, 3)),
        tenant=st.sampled_from("ab"),
        is_long=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
LINEAR = CostTable([(1, 10.0), (501, 510.0)])


def wanted(rows: int, rank: int = 0, tenant: str = "", *, is_long: bool = False) -> WantedRows:
    return WantedRows(rows, (0, rank), tenant, is_long)


@given(st.integers(8, 600), PROMPTS)
def test_every_prompt_gets_rows_and_none_is_wasted(total: int, prompts: list[WantedRows]) -> None:
    shares = share_rows(total, prompts)
    assert all(1 <= share <= each.rows for share, each in zip(shares, prompts, strict=True))
    assert sum(shares) == min(total, sum(each.rows for each in prompts))
    assert shares[0] >= min(prompts[0].rows, total // 8)


def test_short_prompts_are_completed_before_a_long_one_goes_on() -> None:
    assert share_rows(80, [wanted(4000), wanted(30), wanted(30), wanted(30)]) == [10, 30, 30, 10]


def test_tenants_of_one_rank_share_evenly() -> None:
    prompts = [wanted(1, tenant="c"), wanted(500, tenant="a"), *[wanted(10, tenant="b")] * 9]
    assert share_rows(101, prompts)[:2] == [1, pytest.approx(50, abs=5)]
    two = [wanted(1, tenant="c"), wanted(500, tenant="a"), wanted(500, tenant="b")]
    assert share_rows(101, two) == [1, 50, 50]


def test_a_smaller_rank_goes_first() -> None:
    assert share_rows(80, [wanted(500, 5, "a"), wanted(500, 1, "b")]) == [10, 70]


def test_what_cannot_be_completed_is_counted() -> None:
    assert num_unfinished(100, [50, 50]) == 0
    assert num_unfinished(100, [90, 4000, 5]) == 1
    assert num_unfinished(100, [101, 4000]) == 2


@given(PROMPTS, st.integers(0, 64))
def test_a_step_that_completes_prompts_takes_little_longer_for_others(
    prompts: list[WantedRows], num_decodes: int
) -> None:
    budget = PromptBudget(LINEAR, 100.0, 512)
    shares = prompt_rows(512 - num_decodes, prompts, num_decodes, budget)
    assert all(1 <= share <= each.rows for share, each in zip(shares, prompts, strict=True))
    done = [each.rows for share, each in zip(shares, prompts, strict=True) if share == each.rows]
    others = num_decodes + sum(done)
    if done and len(done) < len(prompts):
        # Each unfinished prompt has a row in any case.
        most = LINEAR.ms(others) * STRETCH + len(prompts)
        assert LINEAR.ms(num_decodes + sum(shares)) <= most


def test_a_long_prompt_leaves_most_of_a_step_to_those_that_decode() -> None:
    budget = PromptBudget(LINEAR, 100.0, 512)
    long = [wanted(4000, is_long=True)]
    assert prompt_rows(504, long, 8, budget) == [4]
    assert prompt_rows(504, [wanted(4000)], 8, budget) == [budget.num_rows]
    assert prompt_rows(512, long, 0, budget) == [budget.num_long_rows]


def test_a_budget_is_what_the_costs_allow() -> None:
    budget = PromptBudget(LINEAR, 50.0, 512)
    assert LINEAR.ms(budget.num_rows) <= 50 < LINEAR.ms(budget.num_rows + 1)
    assert budget.num_long_rows == budget.num_rows // 2


def test_a_budget_ends_where_larger_passes_are_hardly_faster() -> None:
    def speed(rows: int) -> float:
        return rows / (LINEAR.ms(rows) + STEP_MS)

    num_rows = PromptBudget(LINEAR, 1000.0, 512).num_rows
    assert speed(num_rows - 1) < ENOUGH * speed(512) <= speed(num_rows) and num_rows < 100


@pytest.mark.parametrize(
    ("costs", "limit_ms", "num_rows"),
    [
        ((), 100.0, 512),
        ((VerifyCost(1, 10.0),), 0.0, 512),
        ((VerifyCost(1, 500.0),), 1.0, MIN_ROWS),
    ],
)
def test_a_budget_without_costs_or_limit_is_all_and_a_slow_verifier_gets_on(
    costs: tuple[VerifyCost, ...], limit_ms: float, num_rows: int
) -> None:
    assert PromptBudget.measured(costs, limit_ms, 512).num_rows == num_rows
