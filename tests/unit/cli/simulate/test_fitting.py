"""From what a real run took to the figures of a model."""

from __future__ import annotations

import pytest

from dspark.cli.simulate.fitting import jitter_of, line_through, true_costs
from dspark.step import VerifyCost

TABLE = [VerifyCost(1, 10.0, 64), VerifyCost(8, 12.0, 64), VerifyCost(1, 11.0, 512)]
TABLE += [VerifyCost(8, 14.0, 512)]


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(1, 3.0), (2, 5.0), (3, 7.0)], (1.0, 2.0)),
        ([(4, 3.0), (4, 5.0)], (4.0, 0.0)),
        ([(1, 5.0), (2, 3.0)], (4.0, 0.0)),
        ([(1, 1.0), (2, 4.0)], (0.0, 1.8)),
        ([(1, -3.0), (1, -1.0)], (0.0, 0.0)),
    ],
)
def test_lines_go_through_their_points_and_never_below_zero(
    points: list[tuple[int, float]], line: tuple[float, float]
) -> None:
    assert line_through(points) == pytest.approx(line)


def test_a_table_follows_what_passes_took() -> None:
    slow_rows = [(1, 64.0, 15.0)] * 20
    costs = {(c.rows, c.context): c.milliseconds for c in true_costs(TABLE, slow_rows)}
    # Nothing is known of eight rows, so they are as much slower as one.
    assert costs == pytest.approx({(1, 64): 15, (8, 64): 18, (1, 512): 16.5, (8, 512): 21})


def test_points_have_ratios_of_their_own_where_passes_tell() -> None:
    passes = [(1, 64.0, 20.0)] * 9 + [(7, 64.0, 12.0 * 0.5 * (10 + 12 / 7 * 6) / 12)] * 9
    found = true_costs(TABLE, [*passes, (8, 64.0, 1e9)][:18])
    costs = {(c.rows, c.context): c.milliseconds for c in found}
    assert costs[1, 64] == pytest.approx(20.0)
    assert costs[8, 64] < 12.0


def test_prompts_beyond_the_table_give_it_points() -> None:
    passes = [(1, 64.0, 10.0)] * 9 + [(64, 300.0, 50.0), (64, 20.0, 60.0)]
    found = true_costs(TABLE, passes)
    assert VerifyCost(64, 55.0, 64) in found


def test_passes_are_enough_without_a_table() -> None:
    found = true_costs([], [(1, 0.0, 10.0), (1, 0.0, 12.0), (40, 0.0, 30.0)])
    assert found == (VerifyCost(1, 11.0), VerifyCost(40, 30.0))


def test_jitter_is_the_spread_about_what_is_expected() -> None:
    passes = [(1, 64.0, 10.0 + 0.01 * n) for n in range(-100, 101)]
    # Of a uniform spread of 20 % the middle two thirds are within 6.8 % of the mean.
    assert jitter_of(TABLE, passes) == pytest.approx(0.068, abs=0.005)
    assert jitter_of(TABLE, passes[:1]) == 0.0
