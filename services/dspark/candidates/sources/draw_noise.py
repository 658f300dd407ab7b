"""The target's noise for networks that guess several places ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.perturbed_top import DrawNoise, is_drawn
from dspark.candidates.sequence import LiveSequence

# For all requests of a batch.
KEPT_DRAWS = 256
Floats = NDArray[np.float32]


def noise_ahead(
    noise: DrawNoise, sequences: Sequence[LiveSequence], num_places: int
) -> Floats | None:
    """[R, num_places, V'] what the target's draws after each sequence add to its logits; None where
    no sequence is drawn.
    """
    if not any(is_drawn(sequence.temperature) for sequence in sequences):
        return None
    nothing = np.zeros(noise.num_ids, dtype=np.float32)
    return np.stack(
        [
            [
                noise.perturbed(nothing, sequence.temperature, sequence.seed, position)
                for position in range(len(sequence), len(sequence) + num_places)
            ]
            for sequence in sequences
        ]
    )
