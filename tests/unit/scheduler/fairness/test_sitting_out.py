"""Who leaves out a step for another tenant's prompt."""

from __future__ import annotations

import pytest

from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.fairness.giving_way import ROUNDS_AHEAD
from dspark.scheduler.fairness.prompt_budget import PromptBudget
from dspark.scheduler.fairness.sitting_out import LEAST_PART, Runner, sitting_out

MAX_ROWS = 256


def budget_of(first_ms: float, row_ms: float) -> PromptBudget:
    costs = CostTable([(1, first_ms), (MAX_ROWS, first_ms + row_ms * (MAX_ROWS - 1))])
    return PromptBudget(costs, 100.0, MAX_ROWS)


STEEP, FLAT = budget_of(10.0, 1.0), budget_of(10.0, 0.001)
CROWD = [Runner("flood")] * 32
CALM = Runner("calm", num_prompt_rows=200)


def test_most_of_a_crowd_sits_out_where_its_rows_take_long() -> None:
    away, _ = sitting_out(CROWD, [CALM], STEEP)
    num_kept = len(CROWD) - len(away)
    assert LEAST_PART <= num_kept < len(CROWD) // 2
    assert num_kept == STEEP.beside(STEEP.num_rows)


def test_nobody_sits_out_where_rows_cost_next_to_nothing() -> None:
    assert sitting_out(CROWD, [CALM], FLAT).decoding == []
    assert sitting_out(CROWD, [CALM], PromptBudget(None, 0.0, MAX_ROWS)).decoding == []


def test_a_short_prompt_keeps_a_part_of_the_crowd_from_nothing() -> None:
    away, _ = sitting_out(CROWD, [Runner("calm", num_prompt_rows=1)], STEEP)
    assert len(CROWD) - len(away) == len(CROWD) // LEAST_PART


@pytest.mark.parametrize(
    "prompts",
    [
        [],
        [Runner("flood", num_prompt_rows=200)],
        # It may not hurry.
        [Runner("calm")],
        # It used more lately.
        [Runner("calm", ROUNDS_AHEAD + 1, 200)],
        # It has half of an equal part or more.
        [CALM] * 12,
    ],
)
def test_for_others_nobody_sits_out(prompts: list[Runner]) -> None:
    assert sitting_out(CROWD, prompts, STEEP) == ([], [])


def test_of_several_tenants_only_the_one_with_more_than_its_part_sits_out() -> None:
    others = [Runner("other")] * 4
    away, _ = sitting_out([*others, *CROWD], [CALM], STEEP)
    assert away and min(away) >= len(others)


def test_prompts_of_a_crowd_wait_unless_they_are_new_or_rows_are_left() -> None:
    started = Runner("flood", num_prompt_rows=100)
    new = Runner("flood", num_prompt_rows=100, is_new=True)
    other = Runner("other", num_prompt_rows=100)
    assert sitting_out(CROWD, [started, CALM, new, other], STEEP).prompts == [0]
    short = Runner("calm", num_prompt_rows=STEEP.num_rows - 1)
    assert sitting_out(CROWD, [started, short], STEEP).prompts == []


def test_they_take_turns() -> None:
    sat_out = [0] * len(CROWD)
    longest = 0
    for _ in range(50):
        decoding = [Runner("flood", num_sat_out=count) for count in sat_out]
        away, _ = sitting_out(decoding, [CALM], STEEP)
        sat_out = [count + 1 if i in away else 0 for i, count in enumerate(sat_out)]
        longest = max(longest, *sat_out)
    assert 0 < longest < LEAST_PART
