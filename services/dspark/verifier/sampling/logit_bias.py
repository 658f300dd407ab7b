"""What a request adds to the logits of single tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.logits_processor import LogitsProcessor


class LogitBias:
    """Adds a value to each of some tokens, none of which is named twice."""

    def __init__(self, bias: Sequence[tuple[int, float]]) -> None:
        self._ids = np.array([token_id for token_id, _ in bias], dtype=np.int64)
        self._values = np.array([value for _, value in bias], dtype=np.float32)

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        logits[self._ids] += self._values


def make_logit_bias(history: History) -> LogitsProcessor | None:
    """None where nothing is biased."""
    bias = history.sampling.logit_bias
    return LogitBias(bias) if any(value for _, value in bias) else None
