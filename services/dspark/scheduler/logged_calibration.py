"""How far predicted acceptance was from what came, source by source, in logged steps (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from dspark.scheduler.calibration_error import CalibrationError
from dspark.scheduler.decision_log import LoggedStep, Offer
from dspark.token_tree import names_in


def calibration_errors(steps: Iterable[LoggedStep]) -> dict[str, float]:
    """Expected calibration error, 0 to 1, of the last few thousand nodes of each source."""
    errors: dict[str, CalibrationError] = {}
    for step in steps:
        for offer in step.offers:
            _add(offer, errors)
    return {name: error.value for name, error in sorted(errors.items())}


def _add(offer: Offer, errors: dict[str, CalibrationError]) -> None:
    right = set(offer.path)
    for node in offer.tried:
        parent = offer.parents[node]
        predicted = offer.survivals[node] / (offer.survivals[parent - 1] if parent else 1.0)
        for name in names_in(offer.masks[node], offer.sources):
            errors.setdefault(name, CalibrationError()).add(min(1.0, predicted), node in right)
