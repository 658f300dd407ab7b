"""The most likely tokens of logits rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 64


def top_ids(logits: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """[num_rows, count] ids of the largest logits [num_rows, vocab_size], largest first.

    Ties go by lowest id. The maxima of ``vocab_size // 64`` groups bound the count-th largest logit
    from below, so only the few logits above that bound are sorted.
    """
    num_rows, vocab_size = logits.shape
    count = min(count, vocab_size)
    bounds = _lower_bounds(logits, count)
    chosen = np.empty((num_rows, count), dtype=np.int64)
    for row in range(num_rows):
        candidates = np.flatnonzero(logits[row] >= bounds[row])
        order = np.argsort(-logits[row, candidates], kind="stable")[:count]
        chosen[row] = candidates[order]
    return chosen


def _lower_bounds(logits: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """[num_rows] values that at least ``count`` logits of the row reach."""
    num_rows, vocab_size = logits.shape
    num_groups = vocab_size // _COLUMNS
    maxima = logits
    if num_groups >= count:
        grouped = logits[:, : num_groups * _COLUMNS].reshape(num_rows, _COLUMNS, num_groups)
        maxima = grouped.max(axis=1)
    kth = maxima.shape[1] - count
    bounds: NDArray[np.float32] = np.partition(maxima, kth, axis=1)[:, kth]
    return bounds
