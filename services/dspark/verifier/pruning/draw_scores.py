"""What a draw would compare, by what the head says of rows after some layers (pure)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise
from dspark.verifier.pruning.forest import Forest

Scores = NDArray[np.float64]


def draw_scores(forest: Forest, token_ids: NDArray[np.int64], logits: Scores) -> Scores:
    """[num_parents, num_tokens] of each parent's row and of ``token_ids``, as ``logits`` are.

    Where the temperature is above 0, the logit by the temperature, and the noise of seed, position
    and token; else the logit itself.
    """
    scores = logits.astype(np.float64)
    for place, parent in enumerate(forest.parents):
        if (temperature := parent.sampling.temperature) > 0:
            noise = KeyedNoise(parent.sampling.seed, parent.position)
            scores[place] = scores[place] / temperature + noise.gumbel(token_ids)
    return scores
