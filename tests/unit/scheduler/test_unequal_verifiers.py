"""A fast verifier beside one at a quarter of its speed, in virtual time."""

from __future__ import annotations

from statistics import quantiles

import pytest

from dspark.scheduler.pace import Speed
from harness.virtual_fleet import VirtualFleet, VirtualVerifier, slowed

# A fixed part and a part a row, as of a small model on a processor.
FAST = Speed(lambda rows: 12.0 + 3.0 * rows, max_rows=512, overhead_ms=2.0)
SLOW = slowed(FAST, 4.0)


def fleet(*speeds: Speed, concurrency: int, is_balancing: bool = True) -> VirtualFleet:
    verifiers = [VirtualVerifier(str(index), speed) for index, speed in enumerate(speeds)]
    return VirtualFleet(verifiers, concurrency, 200, is_balancing=is_balancing)


def p99(gaps_ms: list[float]) -> float:
    return quantiles(gaps_ms, n=100)[98]


@pytest.mark.parametrize(
    ("concurrency", "least_gain"), [(8, 1.0), (16, 1.1), (32, 1.15), (48, 1.15)]
)
def test_both_do_more_than_the_fast_one_and_streams_do_not_stall(
    concurrency: int, least_gain: float
) -> None:
    """With few requests the slow one is better left alone: the fast one hardly notices them."""
    alone = fleet(FAST, concurrency=concurrency)
    both = fleet(FAST, SLOW, concurrency=concurrency)
    assert both.run() / alone.run() >= least_gain
    assert p99(both.gaps_ms) <= 2 * p99(alone.gaps_ms)
    full_step_ms = FAST.pass_ms(FAST.max_rows) + FAST.overhead_ms
    assert max(both.gaps_ms) <= 1.5 * full_step_ms


def test_one_request_is_given_to_the_fast_one_alone() -> None:
    both = fleet(FAST, SLOW, concurrency=1)
    assert both.run() == pytest.approx(fleet(FAST, concurrency=1).run())


def test_equal_verifiers_almost_double_the_throughput_of_one() -> None:
    one, two = fleet(FAST, concurrency=32), fleet(FAST, FAST, concurrency=32)
    assert two.run() / one.run() > 1.7


def test_few_requests_move_where_placement_is_right() -> None:
    both = fleet(FAST, SLOW, concurrency=16)
    with_moves = both.run()
    without = fleet(FAST, SLOW, concurrency=16, is_balancing=False).run()
    assert with_moves > 0.97 * without
