"""What plain steps take beside the model, and what those lose that cannot be computed ahead."""

from __future__ import annotations

import pytest

from dspark.scheduler.step_overhead import StepOverhead


def observed(overhead: StepOverhead, ms: float, *, is_ahead: bool, times: int = 200) -> None:
    for _ in range(times):
        overhead.observe(ms, is_ahead=is_ahead)


def test_nothing_is_lost_where_nothing_is_computed_ahead() -> None:
    overhead = StepOverhead()
    observed(overhead, 3.0, is_ahead=False)
    assert overhead.plain_ms == pytest.approx(3.0)
    assert overhead.lost_ms == 0


def test_the_difference_is_what_a_step_with_candidates_loses() -> None:
    overhead = StepOverhead()
    observed(overhead, 3.0, is_ahead=False)
    observed(overhead, 0.5, is_ahead=True)
    assert overhead.plain_ms == pytest.approx(0.5)
    assert overhead.lost_ms == pytest.approx(2.5)


def test_a_pass_that_began_in_the_step_before_counts_as_no_less_than_nothing() -> None:
    overhead = StepOverhead()
    observed(overhead, -5.0, is_ahead=True)
    assert overhead.plain_ms == 0
