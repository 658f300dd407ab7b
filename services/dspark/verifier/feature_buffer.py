"""Which hidden states a pass hands out beside its logits, and where it writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FeatureBuffer:
    """Made by the engine, filled by the model."""

    # layer numbers, ascending; see dspark.features
    layers: tuple[int, ...]
    # [num_feature_rows] rows of the batch
    rows: NDArray[np.int64]
    # [num_feature_rows, num_layers, hidden_size]
    values: NDArray[np.float32]

    @classmethod
    def of(
        cls, layers: tuple[int, ...], rows: NDArray[np.int64], hidden_size: int
    ) -> FeatureBuffer:
        """A buffer of the size that is needed, with nothing in it yet."""
        values = np.empty((len(rows), len(layers), hidden_size), dtype=np.float32)
        return cls(layers, np.ascontiguousarray(rows, dtype=np.int64), values)
