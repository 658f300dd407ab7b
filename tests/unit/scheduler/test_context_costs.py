"""Costs by rows and context."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.scheduler.context_costs import ContextCosts
from dspark.scheduler.online_costs import OnlineCosts
from dspark.step import VerifyCost

POINTS = [
    VerifyCost(rows, 10.0 + rows + added * rows, context)
    for context, added in ((64, 0.0), (512, 0.5), (2048, 2.0))
    for rows in (1, 4, 16)
]


def test_measured_points_are_kept() -> None:
    costs = ContextCosts(POINTS)
    for point in POINTS:
        assert costs.at(point.context).ms(point.rows) == pytest.approx(point.milliseconds)


def test_between_and_beyond_contexts() -> None:
    costs = ContextCosts(POINTS)
    assert costs.at((64 + 512) / 2).ms(4) == pytest.approx(10 + 4 + 0.25 * 4)
    assert costs.at(2048 + 1536).ms(16) == pytest.approx(10 + 16 + 3.5 * 16)
    assert costs.at(3).ms(4) == costs.at(64).ms(4)


def test_a_context_that_is_asked_for_again_costs_a_look() -> None:
    costs = ContextCosts(POINTS)
    assert costs.at(300.0) is costs.at(301.0)


def test_one_context_stands_for_all() -> None:
    costs = ContextCosts([VerifyCost(1, 5.0), VerifyCost(8, 9.0)])
    assert costs.at(0) is costs.at(1e6)
    assert costs.max_rows == 8


def test_without_points() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        ContextCosts([])


@given(
    st.lists(
        st.builds(
            VerifyCost, st.integers(1, 64), st.floats(0.01, 1e4), st.sampled_from([0, 64, 512])
        ),
        min_size=1,
        max_size=20,
    ),
    st.floats(0, 1e5),
)
def test_more_rows_never_cost_less(points: list[VerifyCost], context: float) -> None:
    table = ContextCosts(points).at(context)
    assert all(b >= a - 1e-6 for a, b in pairwise(table.ms(rows) for rows in range(1, 80)))


@given(st.lists(st.floats(0, 4000), min_size=2, max_size=5))
def test_more_context_never_costs_less(contexts: list[float]) -> None:
    costs = ContextCosts(POINTS)
    for rows in (1, 5, 16, 40):
        times = [costs.at(context).ms(rows) for context in sorted(contexts)]
        assert all(b >= a - 1e-9 for a, b in pairwise(times))


def test_what_is_seen_at_one_context_moves_that_one_most() -> None:
    costs = OnlineCosts(POINTS)
    for _ in range(400):
        costs.observe(4, 2 * ContextCosts(POINTS).at(2048).ms(4), 2048)
        costs.observe(4, 14.0, 64)
        costs.observe(1, 11.0, 64)
    assert costs.at(2048).ms(4) == pytest.approx(2 * (14 + 8), rel=0.05)
    assert costs.at(64).ms(4) == pytest.approx(14.0, rel=0.05)
