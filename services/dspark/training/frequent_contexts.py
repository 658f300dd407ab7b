"""Keeps the contexts that occur most: those seen once are the most, and are met the least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dspark.training.ngram_counts import OrderCounts


def most_frequent(orders: Sequence[OrderCounts], limit: int) -> list[OrderCounts]:
    """At most ``limit`` contexts in all orders together, the same orders.

    Among equally frequent ones shorter contexts are kept first, which are met more easily, then
    those that leave least open.
    """
    if sum(len(counts.totals) for counts in orders) <= limit:
        return list(orders)
    totals = np.concatenate([counts.totals for counts in orders])
    lengths = np.concatenate([np.full(len(counts.totals), counts.order) for counts in orders])
    shares = np.concatenate([_best_shares(counts) for counts in orders])
    kept = np.zeros(len(totals), dtype=bool)
    kept[np.lexsort((-shares, lengths, -totals))[:limit]] = True
    ends = np.cumsum([len(counts.totals) for counts in orders])[:-1]
    return [_only(*pair) for pair in zip(orders, np.split(kept, ends), strict=True)]


def _best_shares(counts: OrderCounts) -> NDArray[np.float64]:
    """Of each distinct context: the count of what follows it most over how often it occurs."""
    firsts = np.unique(counts.keys, return_index=True)[1]
    return np.asarray(counts.counts[firsts] / counts.totals)


def _only(counts: OrderCounts, kept: NDArray[np.bool_]) -> OrderCounts:
    """``kept`` [distinct contexts] says which contexts stay."""
    pairs = kept[np.unique(counts.keys, return_inverse=True)[1]]
    return replace(
        counts,
        keys=counts.keys[pairs],
        next_ids=counts.next_ids[pairs],
        counts=counts.counts[pairs],
        totals=counts.totals[kept],
    )
