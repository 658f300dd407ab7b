"""The most likely tokens of logits rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GROUP_SIZE = 64

Ids = NDArray[np.int64]
Logits = NDArray[np.float32] | NDArray[np.float64]


def top_ids(logits: Logits, count: int) -> Ids:
    """[num_rows, count] ids of the largest logits [num_rows, vocab_size], largest first.

    Ties go by lowest id; what is no number goes last. ``count`` is at most the vocabulary's size.
    One pass finds the maximum of each group of tokens; the count-th largest maximum bounds the
    wanted logits from below, so that only the groups that reach it are looked into.
    """
    num_rows, vocab_size = logits.shape
    num_groups = vocab_size // _GROUP_SIZE
    group_size = _GROUP_SIZE if num_groups >= count else 1
    num_groups = vocab_size // group_size
    # [num_rows, group_size, num_groups]: token ``member * num_groups + group``
    grouped = logits[:, : num_groups * group_size].reshape(num_rows, group_size, num_groups)
    maxima = grouped.max(axis=1)
    if np.isnan(maxima).any():
        return top_ids(np.where(np.isnan(logits), np.float32(-np.inf), logits), count)
    bounds = np.partition(maxima, num_groups - count, axis=1)[:, num_groups - count]
    rows, ids = _at_least(grouped, maxima, bounds)
    if num_groups * group_size < vocab_size:
        rest = np.nonzero(logits[:, num_groups * group_size :] >= bounds[:, None])
        rows = np.concatenate([rows, rest[0]])
        ids = np.concatenate([ids, rest[1] + num_groups * group_size])
    order = np.lexsort((ids, -logits[rows, ids], rows))
    first_of_row = np.searchsorted(rows[order], np.arange(num_rows))
    chosen: Ids = ids[order[first_of_row[:, None] + np.arange(count)]]
    return chosen


def _at_least(grouped: Logits, maxima: Logits, bounds: Logits) -> tuple[Ids, Ids]:
    """Rows and ids of the grouped logits that reach their row's bound."""
    rows, groups = np.nonzero(maxima >= bounds[:, None])
    # [number of such groups, group_size]
    members = grouped[rows, :, groups]
    found, member = np.nonzero(members >= bounds[rows][:, None])
    return rows[found], member * grouped.shape[2] + groups[found]
