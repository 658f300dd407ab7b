"""What the head says of each token behind a layer on average, whatever the text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.pruning.cut import RestrictedLogits
from dspark.verifier.pruning.draw_scores import Scores

# Rows that a mean is over at most; beyond, old ones fade.
_MAX_ROWS = 2000.0


class TokenMeans:
    """Early layers hold some tokens for likely everywhere; without that, rows tell more."""

    def __init__(self) -> None:
        # By token id; both grow with the largest one.
        self._means = np.zeros(0)
        self._rows = np.zeros(0)

    def without(self, token_ids: NDArray[np.int64], logits: RestrictedLogits) -> Scores:
        """``logits`` [num_rows, num_tokens] less each token's mean, to which they are added."""
        self._reserve(int(token_ids[-1]) + 1)
        values = np.nan_to_num(logits.astype(np.float64), posinf=0.0, neginf=0.0)
        rows, new = self._rows[token_ids], len(logits)
        sums = self._means[token_ids] * rows + values.sum(axis=0)
        self._means[token_ids] = means = sums / (rows + new)
        self._rows[token_ids] = np.minimum(rows + new, _MAX_ROWS)
        scores: Scores = logits - means
        return scores

    def _reserve(self, num_ids: int) -> None:
        missing = num_ids - len(self._means)
        if missing > 0:
            self._means = np.pad(self._means, (0, missing))
            self._rows = np.pad(self._rows, (0, missing))
