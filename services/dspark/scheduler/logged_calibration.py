"""How far predicted acceptance was from what came, source by source, in logged steps (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dspark.scheduler.calibration_error import CalibrationError
from dspark.scheduler.decision_log import LoggedStep
from dspark.token_tree import names_in


class Prediction(NamedTuple):
    """What was said of a source's node whose parent was committed, 0 to 1, and what came."""

    source: str
    predicted: float
    accepted: bool


def calibration_errors(steps: Iterable[LoggedStep]) -> dict[str, float]:
    """Expected calibration error, 0 to 1, of the last few thousand nodes of each source."""
    errors: dict[str, CalibrationError] = {}
    for source, predicted, accepted in predictions(steps):
        errors.setdefault(source, CalibrationError()).add(predicted, accepted)
    return {name: error.value for name, error in sorted(errors.items())}


def predictions(steps: Iterable[LoggedStep]) -> Iterator[Prediction]:
    """Those of all nodes that were tried, once for each source of a node."""
    for offer in (offer for step in steps for offer in step.offers):
        right = set(offer.path)
        for node in offer.tried:
            parent = offer.parents[node]
            predicted = offer.survivals[node] / (offer.survivals[parent - 1] if parent else 1.0)
            for name in names_in(offer.masks[node], offer.sources):
                yield Prediction(name, min(1.0, predicted), node in right)
