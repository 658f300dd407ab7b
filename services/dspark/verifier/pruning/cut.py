"""A pass that asks in the middle which of its rows go on, and models that can run one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.forward_batch import ForwardBatch

Rows = NDArray[np.int64]
RestrictedLogits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a pass is cut: all rows run the first ``layer`` layers, and the kept ones the rest.

    ``choose`` is called once, between the two, with what the head would say of some rows and some
    tokens if those layers were all: float32 [num_probes, num_tokens]. It returns the rows that go
    on, ascending. What a kept row sees must be kept, and at least one row is.
    """

    layer: int
    # [num_probes] rows, ascending
    probe_rows: Rows
    # [num_tokens]
    token_ids: NDArray[np.int64]
    choose: Callable[[RestrictedLogits], Rows]


class CuttingRunner(Protocol):
    """A ModelRunner that can run a pass with a cut."""

    @property
    def num_layers(self) -> int: ...

    def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
        """As ``forward``, for a cut behind at least one layer and before at least one.

        Returns the logits of the wanted rows that were kept, the same bits as without a cut if
        rows do not depend on each other. Rows that were not kept leave their slots of the later
        layers unwritten, and their features undefined.
        """
        ...
