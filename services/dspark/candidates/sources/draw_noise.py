"""The target's noise, on the logits of networks that guess several places ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.perturbed_top import DrawNoise
from dspark.candidates.sequence import LiveSequence

# For all requests of a batch.
KEPT_DRAWS = 256
Floats = NDArray[np.float32]


def with_noise(noise: DrawNoise, logits: Floats, sequences: Sequence[LiveSequence]) -> Floats:
    """``logits`` [R, K, V'] of the K places after each sequence, with what the target's draws there
    add to its own; changed in place.
    """
    for row, sequence in enumerate(sequences):
        for place in range(logits.shape[1]):
            position = len(sequence) + place
            logits[row, place] = noise.perturbed(
                logits[row, place], sequence.temperature, sequence.seed, position
            )
    return logits
