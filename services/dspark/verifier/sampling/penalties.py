"""Penalties for tokens that the text has already (repetition: arXiv:1909.05858, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.logits_processor import LogitsProcessor
from dspark.verifier.sampling.token_counts import TokenCounts


class Penalties:
    """Repetition, which counts the prompt too, then frequency and presence, which do not."""

    def __init__(self, history: History) -> None:
        params = history.sampling
        self._repetition = np.float32(params.repetition_penalty)
        self._frequency = np.float32(params.frequency_penalty)
        self._presence = np.float32(params.presence_penalty)
        self._counts = TokenCounts(history, with_prompt=params.repetition_penalty != 1)

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        ids, counts = self._counts.along(path)
        values = logits[ids]
        values = np.where(values > 0, values / self._repetition, values * self._repetition)
        values -= self._frequency * counts
        values -= self._presence * (counts > 0)
        logits[ids] = values


def make_penalties(history: History) -> LogitsProcessor | None:
    """None where no penalty is asked for."""
    params = history.sampling
    is_neutral = params.repetition_penalty == 1 and not (
        params.frequency_penalty or params.presence_penalty
    )
    return None if is_neutral else Penalties(history)
