"""The cost table follows the machine's speed and its own shape."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.scheduler.online_costs import MAX_RATIO, OnlineCosts

POINTS = [(1, 10.0), (2, 11.0), (4, 12.0), (8, 16.0), (16, 30.0), (64, 120.0)]


def observe(costs: OnlineCosts, rows: int, ms: float, times: int) -> None:
    for _ in range(times):
        costs.observe(rows, ms)


def test_before_anything_is_seen_it_is_what_was_measured() -> None:
    assert [OnlineCosts(POINTS).at(0).ms(rows) for rows, _ in POINTS] == [ms for _, ms in POINTS]


def test_a_slower_machine_is_slower_at_all_rows() -> None:
    costs = OnlineCosts(POINTS)
    for rows, ms in POINTS:
        observe(costs, rows, 2 * ms, 400)
    for rows, ms in POINTS:
        assert costs.at(0).ms(rows) == pytest.approx(2 * ms, rel=0.02)


def test_a_point_that_was_measured_wrongly_heals_without_the_others() -> None:
    costs = OnlineCosts([*POINTS[:3], (8, 40.0), (16, 41.0), POINTS[-1]])
    for _ in range(400):
        costs.observe(1, 10.0)
        costs.observe(8, 16.0)
    assert costs.at(0).ms(8) == pytest.approx(16.0, rel=0.2)
    assert costs.at(0).ms(1) == pytest.approx(10.0, rel=0.2)


def test_further_rows_cost_what_passes_with_them_take_beyond_those_without() -> None:
    costs = OnlineCosts([(1, 10.0), (16, 30.0), (32, 60.0)])
    for _ in range(400):
        costs.observe(16, 50.0)
        costs.observe(24, 65.0)
    table = costs.at(0)
    assert table.ms(24) - table.ms(16) == pytest.approx(15.0, rel=0.1)


def test_what_is_not_seen_any_more_follows_the_machine_and_forgets_its_shape() -> None:
    costs = OnlineCosts(POINTS)
    observe(costs, 64, 240.0, 100)
    observe(costs, 2, 11.0, 4000)
    assert costs.at(0).ms(64) == pytest.approx(120.0, rel=0.1)
    observe(costs, 2, 22.0, 400)
    assert costs.at(0).ms(64) == pytest.approx(240.0, rel=0.1)


def test_hiccups_count_as_slow_not_as_what_they_took() -> None:
    costs = OnlineCosts(POINTS)
    observe(costs, 1, 1e6, 400)
    assert costs.at(0).ms(1) == pytest.approx(10.0 * MAX_RATIO, rel=0.01)


@pytest.mark.parametrize(("rows", "ms"), [(0, 5.0), (65, 500.0), (1, 0.0), (1, -1.0)])
def test_what_tells_nothing_changes_nothing(rows: int, ms: float) -> None:
    costs = OnlineCosts(POINTS)
    observe(costs, rows, ms, 100)
    assert costs.at(0).ms(1) == 10.0


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0.01, 1e4)), max_size=100))
def test_more_rows_never_cost_less(passes: list[tuple[int, float]]) -> None:
    costs = OnlineCosts(POINTS)
    for rows, ms in passes:
        costs.observe(rows, ms)
    table = [costs.at(0).ms(rows) for rows in range(100)]
    assert all(b >= a - 1e-9 for a, b in pairwise(table))


def test_nothing_measured_is_no_table() -> None:
    assert OnlineCosts.measured(()) is None
