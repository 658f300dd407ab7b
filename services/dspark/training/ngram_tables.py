"""Makes the table of what follows each context from counts of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dspark.candidates.sources.ngram_table import MAX_SCORE, NgramOrder, NgramTable
from dspark.training.frequent_contexts import most_frequent
from dspark.training.ngram_counts import NgramText, OrderCounts, count, counts_of, merged


def make_order(counts: OrderCounts, width: int, escape: float) -> NgramOrder:
    """The ``width`` most frequent continuations of each context as scores."""
    keys, totals = np.unique(counts.keys), counts.totals
    starts = np.searchsorted(counts.keys, keys)
    rank = np.arange(len(counts.keys)) - starts[np.searchsorted(keys, counts.keys)]
    kept = rank < width
    context = np.searchsorted(keys, counts.keys[kept])
    shares = counts.counts[kept] / (totals[context] + escape)
    token_ids = np.zeros((len(keys), width), dtype=np.uint32)
    scores = np.zeros((len(keys), width), dtype=np.uint8)
    token_ids[context, rank[kept]] = counts.next_ids[kept]
    scores[context, rank[kept]] = np.floor(shares * MAX_SCORE).astype(np.uint8)
    return NgramOrder(
        counts.order, width, keys.tolist(), token_ids.ravel().tolist(), scores.ravel().tolist()
    )


def build_table(
    texts: Sequence[NgramText],
    widths: Sequence[int],
    escapes: Sequence[float],
    target_digest: str,
    start: NgramTable | None = None,
    max_contexts: int | None = None,
) -> NgramTable:
    """``widths[n - 1]`` continuations of each context of n tokens, with ``escapes[n - 1]``.

    What was counted for ``start``, a table with these escapes, counts as well. Of more than
    ``max_contexts`` the most frequent ones are kept.
    """
    known = {order.order: order for order in start.orders} if start is not None else {}
    counted: list[OrderCounts] = []
    for order in range(len(widths), 0, -1):
        counts = count(texts, order)
        if order in known:
            counts = merged(counts_of(known[order], escapes[order - 1]), counts)
        counted.append(counts)
    if max_contexts is not None:
        counted = most_frequent(counted, max_contexts)
    orders = [
        make_order(counts, widths[counts.order - 1], escapes[counts.order - 1])
        for counts in counted
    ]
    return NgramTable(orders, target_digest)
