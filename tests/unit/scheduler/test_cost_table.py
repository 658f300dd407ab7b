"""Lines between measured points, stairs where they were measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.scheduler.cost_table import CostTable

POINTS = st.lists(st.tuples(st.integers(1, 200), st.floats(0.1, 100.0)), min_size=1, max_size=10)


def test_between_points_the_cost_lies_on_a_line() -> None:
    table = CostTable([(1, 10.0), (5, 20.0), (9, 24.0)])
    assert [table.ms(rows) for rows in (1, 3, 5, 7, 9)] == [10.0, 15.0, 20.0, 22.0, 24.0]


def test_beyond_the_points_the_last_slope_goes_on_and_before_them_nothing_is_cheaper() -> None:
    table = CostTable([(4, 10.0), (8, 14.0)])
    assert table.ms(0) == table.ms(1) == 10.0
    assert table.ms(18) == 24.0


def test_a_measured_staircase_stays_one() -> None:
    table = CostTable([(1, 10.0), (16, 10.0), (17, 20.0), (32, 20.0)])
    assert [table.ms(rows) for rows in (1, 16, 17, 32)] == [10.0, 10.0, 20.0, 20.0]


def test_one_point_is_a_constant() -> None:
    assert CostTable([(4, 7.0)]).ms(1000) == 7.0


def test_nothing_measured_is_no_table() -> None:
    with pytest.raises(ValueError):
        CostTable([])


@given(POINTS)
def test_more_rows_never_cost_less(points: list[tuple[int, float]]) -> None:
    table = CostTable(points)
    costs = [table.ms(rows) for rows in range(260)]
    assert all(b >= a - 1e-9 for a, b in pairwise(costs))
    for rows, ms in points:
        assert table.ms(rows) >= ms - 1e-9
