"""What the engine asks about each pass: whether some of its candidate rows drop out, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.step import WorkResult
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.scheduled_work import ScheduledWork


@dataclass(slots=True)
class PruningBooks:
    """Counted since the start.

    An audited pass drops nothing. ``num_lost_tokens`` of the ``num_audited_tokens`` accepted ones
    would have been lost; audits before anything is dropped count for neither.
    """

    num_pruned_rows: int = 0
    num_audits: int = 0
    num_audited_tokens: int = 0
    num_lost_tokens: int = 0


class PrunedPass(Protocol):
    """One pass with a cut; ``kept_nodes`` is known once it ran."""

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Logits of the wanted rows that were kept."""
        ...

    def kept_nodes(self) -> list[list[int]]:
        """For each entry the nodes that stayed, ascending; an entry's all if none was dropped."""
        ...


class Pruner(Protocol):
    """A policy; ``learn`` follows each ``plan`` whose pass ran."""

    books: PruningBooks

    def plan(self, entries: Sequence[ScheduledWork]) -> PrunedPass | None:
        """How to run the pass over ``entries``; None for all rows through all layers."""
        ...

    def learn(self, entries: Sequence[ScheduledWork], results: Sequence[WorkResult]) -> None:
        """What became of a step's entries, in their order."""
        ...


class NoPruning:
    """Each row runs through all layers."""

    def __init__(self) -> None:
        self.books = PruningBooks()

    def plan(self, entries: Sequence[ScheduledWork]) -> PrunedPass | None:
        return None

    def learn(self, entries: Sequence[ScheduledWork], results: Sequence[WorkResult]) -> None:
        pass
