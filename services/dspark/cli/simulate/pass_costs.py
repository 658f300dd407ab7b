"""What a pass really takes in a simulation, which the scheduler has to find out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.scheduler.context_costs import ContextCosts


class PassCost(Protocol):
    """``parts`` has (rows, tokens that the last row attends to) of each sequence."""

    def ms(self, parts: Sequence[tuple[int, int]]) -> float: ...


class TableCost:
    """By the number of rows and the mean context, as a verifier's table has it."""

    def __init__(self, model: VerifierModel) -> None:
        self._costs = ContextCosts(model.verify_costs)

    def ms(self, parts: Sequence[tuple[int, int]]) -> float:
        rows = sum(count for count, _ in parts)
        mean_context = sum(context for _, context in parts) / len(parts)
        return self._costs.at(mean_context).ms(rows)


def pass_cost(model: VerifierModel) -> PassCost:
    return TableCost(model) if model.roofline is None else model.roofline
