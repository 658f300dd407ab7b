"""The running calibration error: 0 for true probabilities, the gap for false ones."""

from __future__ import annotations

import random

import pytest

from dspark.scheduler import calibration_error
from dspark.scheduler.calibration import ERROR_INTERVAL, Calibration
from dspark.scheduler.calibration_error import CalibrationError
from dspark.scheduler.outcomes import Outcome
from dspark.token_tree import chain


def test_nothing_tried_is_no_error() -> None:
    assert CalibrationError().value == 0.0


def test_true_probabilities_have_a_small_error() -> None:
    error, draws = CalibrationError(), random.Random(1)
    for _ in range(20_000):
        predicted = draws.random()
        error.add(predicted, draws.random() < predicted)
    assert error.value < 0.04


@pytest.mark.parametrize(("predicted", "share"), [(0.9, 0.5), (0.2, 0.6), (1.0, 0.0)])
def test_false_probabilities_have_their_gap(predicted: float, share: float) -> None:
    error, draws = CalibrationError(), random.Random(2)
    for _ in range(20_000):
        error.add(predicted, draws.random() < share)
    assert error.value == pytest.approx(abs(predicted - share), abs=0.04)


def test_errors_of_different_predictions_do_not_cancel() -> None:
    error = CalibrationError()
    for _ in range(1000):
        error.add(0.95, False)
        error.add(0.05, True)
    assert error.value == pytest.approx(0.95, abs=0.01)


def test_old_tries_fade() -> None:
    error = CalibrationError()
    for _ in range(10_000):
        error.add(0.9, False)
    for _ in range(20_000):
        error.add(1.0, True)
    assert error.value < 0.01


def test_the_weights_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rescaled = CalibrationError(), CalibrationError()
    draws = random.Random(3)
    tries = [(draws.random(), draws.random() < 0.5) for _ in range(3000)]
    for predicted, accepted in tries:
        plain.add(predicted, accepted)
    monkeypatch.setattr(calibration_error, "_RESCALE_AT", 1.5)
    for predicted, accepted in tries:
        rescaled.add(predicted, accepted)
    assert rescaled.value == pytest.approx(plain.value)


def test_calibration_compares_its_predictions_with_what_came() -> None:
    calibration = Calibration()
    tree = chain([1], "suffix", score=0.9)

    def see(token_id: int) -> float:
        for _ in range(200 * ERROR_INTERVAL):
            outcome = Outcome(tree)
            outcome.follow((token_id,))
            calibration.update(outcome)
        return calibration.errors["suffix"].value

    early = see(2)
    assert 0.0 < early < 0.3, "it learns at once that the source is wrong"
    assert see(1) > early, "it was surprised by a source that became right"
