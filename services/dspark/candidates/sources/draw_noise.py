"""The target's noise, on the logits of networks that guess several places ahead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.perturbed_top import is_drawn
from dspark.candidates.sequence import LiveSequence
from dspark.keyed_noise import KeyedNoise

CACHED_DRAWS = 256
Floats = NDArray[np.float32]


class DrawNoise:
    """Over a draft vocabulary ``token_ids`` [V']; see ``dspark.candidates.perturbed_top``."""

    def __init__(self, token_ids: NDArray[np.int64]) -> None:
        self._token_ids = token_ids
        # Most places that a tree reaches were reached by the one before.
        self._at = lru_cache(CACHED_DRAWS)(self._noise_at)

    def added(self, logits: Floats, sequences: Sequence[LiveSequence]) -> Floats:
        """``logits`` [R, K, V'] of the K places after each sequence, with what the target's draws
        there add to its own.
        """
        for row, sequence in enumerate(sequences):
            if is_drawn(sequence.temperature):
                places = range(len(sequence), len(sequence) + logits.shape[1])
                noise = np.stack([self._at(sequence.seed, place) for place in places])
                logits[row] += np.float32(sequence.temperature) * noise
        return logits

    def _noise_at(self, seed: int, position: int) -> Floats:
        return KeyedNoise(seed, position).gumbel(self._token_ids).astype(np.float32)
