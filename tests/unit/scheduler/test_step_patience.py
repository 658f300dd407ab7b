"""Patience with a verifier grows while it runs out, and follows what steps take."""

from __future__ import annotations

from dspark.scheduler.step_patience import SLOW_STEP_FACTOR, StepPatience


def test_it_begins_with_what_was_measured() -> None:
    assert StepPatience().seconds(1.0, 0.1) == 1.0 + SLOW_STEP_FACTOR * 0.1


def test_it_grows_until_a_step_is_answered() -> None:
    patience = StepPatience()
    first = patience.seconds(1.0, 0.1)
    for times in (2, 4, 8):
        patience.ran_out()
        assert patience.seconds(1.0, 0.1) == times * first
    patience.took(0.05)
    assert patience.seconds(1.0, 0.1) == first


def test_it_is_bounded() -> None:
    patience = StepPatience()
    for _ in range(100):
        patience.ran_out()
    assert patience.seconds(1.0, 0.0) < 60.0


def test_a_step_that_took_long_is_remembered_for_a_while() -> None:
    patience = StepPatience()
    patience.took(2.0)
    assert patience.seconds(1.0, 0.1) == 1.0 + SLOW_STEP_FACTOR * 2.0
    for _ in range(1000):
        patience.took(0.05)
    assert patience.seconds(1.0, 0.1) == 1.0 + SLOW_STEP_FACTOR * 0.1
