"""How far each node is behind the best token of its parent's row, after some layers only (pure)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise
from dspark.verifier.pruning.cut import RestrictedLogits
from dspark.verifier.pruning.forest import Forest

Margins = NDArray[np.float64]


def node_margins(forest: Forest, token_ids: NDArray[np.int64], logits: RestrictedLogits) -> Margins:
    """[num_nodes] from 0, the best token itself, upwards.

    ``logits`` [num_parents, num_tokens] are of ``token_ids``, which ascend and contain all tokens
    of the forest. Where the temperature is above 0, a token's score is what a draw compares:
    the logit by the temperature, and the noise of seed, position and token.
    """
    scores = logits.astype(np.float64)
    for place, parent in enumerate(forest.parents):
        if (temperature := parent.sampling.temperature) > 0:
            noise = KeyedNoise(parent.sampling.seed, parent.position)
            scores[place] = scores[place] / temperature + noise.gumbel(token_ids)
    columns = np.searchsorted(token_ids, forest.token_ids)
    best = scores.max(axis=1)
    with np.errstate(invalid="ignore"):
        margins: Margins = best[forest.parent_places] - scores[forest.parent_places, columns]
    return margins
