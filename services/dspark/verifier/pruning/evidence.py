"""Numbers from which a node's chance is estimated: how its parent's row ranks it, and its prior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.pruning.draw_scores import Scores
from dspark.verifier.pruning.forest import Forest
from dspark.verifier.pruning.node_priors import NUM_PRIORS

NUM_NUMBERS = 4 + NUM_PRIORS
# Rows whose scores spread less are no judges of anything.
_MIN_SPREAD = 1e-6

Evidence = NDArray[np.float64]


def evidence_of(forest: Forest, token_ids: NDArray[np.int64], scores: Scores) -> Evidence:
    """[num_nodes, NUM_NUMBERS] a constant, how far the node is behind its best sibling and behind
    the best of all ``token_ids``, by the spread of the row; how many are before it; its prior.

    ``scores`` [num_parents, num_tokens]; a row in which something is no number says nothing.
    """
    scores = np.where(np.isfinite(scores).all(axis=1, keepdims=True), scores, 0.0)
    places = forest.parent_places
    own = scores[places, np.searchsorted(token_ids, forest.token_ids)]
    best_child = np.full(len(scores), -np.inf)
    np.maximum.at(best_child, places, own)
    spread = np.maximum(scores.std(axis=1), _MIN_SPREAD)[places]
    num_before = (scores[places] > own[:, None]).sum(axis=1)
    said = (
        np.ones(len(own)),
        (best_child[places] - own) / spread,
        (scores.max(axis=1)[places] - own) / spread,
        np.log1p(num_before),
    )
    return np.column_stack([*said, forest.priors])
