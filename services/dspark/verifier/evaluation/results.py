"""What an evaluation finds under one weight dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspark.verifier.evaluation.agreement import Agreement


@dataclass(frozen=True, slots=True)
class TextScore:
    """Sum of the log-probabilities (nats) of the scored tokens of a text, and their number."""

    log_probability: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ModelRun:
    """How the model ran: see LoadedModel."""

    dtype: str
    kernel_class: str
    exactness: str
    device: str


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """One result for each text and each prompt of the plan.

    The reference has its greedy ``continuations``, the other its ``agreements`` with these.
    """

    run: ModelRun
    texts: Sequence[TextScore]
    continuations: Sequence[Sequence[int]] = field(default=())
    agreements: Sequence[Agreement] = field(default=())
