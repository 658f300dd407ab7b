"""Counts what follows each context in the target's own texts, and makes the table of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.ngram_table import MAX_SCORE, NgramOrder, NgramTable

_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
TokenIds = NDArray[np.uint32]
# Scores of eight bits do not tell how often a context occurred of which they leave less open.
MAX_SPENT = 1 - 1 / MAX_SCORE


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """Contexts of ``order`` tokens: hash, next token and count of each distinct pair, sorted by
    hash, then by falling count.
    """

    order: int
    keys: NDArray[np.uint32]
    next_ids: TokenIds
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NgramText:
    """Tokens of a text; the first ``start`` of them are context only."""

    token_ids: TokenIds
    start: int


def context_hashes(token_ids: TokenIds, order: int) -> NDArray[np.uint32]:
    """[len - order + 1] the hash of each run of ``order`` tokens, as ``context_hash``."""
    ids = token_ids.astype(np.uint64)
    num_runs = len(ids) - order + 1
    state = np.zeros(max(num_runs, 0), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(order):
            state = (state ^ ids[place : place + len(state)]) * _FIRST + _SECOND
            state ^= state >> np.uint64(33)
    return (state >> np.uint64(32)).astype(np.uint32)


def pairs_of(texts: Sequence[NgramText], order: int) -> tuple[NDArray[np.uint32], TokenIds]:
    """Context hash and next token at every position of all texts."""
    keys: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    following: list[TokenIds] = [np.empty(0, np.uint32)]
    for text in texts:
        first = max(text.start, order)
        if first < len(text.token_ids):
            keys.append(context_hashes(text.token_ids[first - order : -1], order))
            following.append(text.token_ids[first:].astype(np.uint32))
    return np.concatenate(keys), np.concatenate(following)


def count(texts: Sequence[NgramText], order: int) -> OrderCounts:
    keys, following = pairs_of(texts, order)
    pairs = keys.astype(np.uint64) << np.uint64(32) | following
    distinct, counts = np.unique(pairs, return_counts=True)
    return _sorted(order, *_halves(distinct), counts)


def counts_of(order: NgramOrder, escape: float) -> OrderCounts:
    """About what an order of a table was made of: its scores are shares of an unknown total, which
    their sum tells apart from ``escape``.
    """
    keys = np.array(order.keys, dtype=np.uint32)
    token_ids = np.array(order.token_ids, dtype=np.uint32).reshape(len(keys), order.width)
    scores = np.array(order.scores, dtype=np.float64).reshape(token_ids.shape) / MAX_SCORE
    spent = np.minimum(scores.sum(axis=1, keepdims=True), MAX_SPENT)
    counts = np.rint(scores * escape / (1 - spent)).astype(np.int64)
    kept = counts > 0
    rows = np.broadcast_to(keys[:, None], kept.shape)
    return _sorted(order.order, rows[kept], token_ids[kept], counts[kept])


def merged(first: OrderCounts, second: OrderCounts) -> OrderCounts:
    """The counts of both. Raises ValueError if their contexts are not of one length."""
    if first.order != second.order:
        raise ValueError(f"contexts of {first.order} and of {second.order} tokens")
    keys = np.concatenate((first.keys, second.keys))
    next_ids = np.concatenate((first.next_ids, second.next_ids))
    pairs = keys.astype(np.uint64) << np.uint64(32) | next_ids
    distinct, places = np.unique(pairs, return_inverse=True)
    counts = np.bincount(places, weights=np.concatenate((first.counts, second.counts)))
    return _sorted(first.order, *_halves(distinct), counts.astype(np.int64))


def make_order(counts: OrderCounts, width: int, escape: float) -> NgramOrder:
    """The ``width`` most frequent continuations of each context as scores."""
    keys, totals = _totals(counts)
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
) -> NgramTable:
    """``widths[n - 1]`` continuations of each context of n tokens, with ``escapes[n - 1]``.

    What was counted for ``start``, a table with these escapes, counts as well.
    """
    known = {order.order: order for order in start.orders} if start is not None else {}
    orders: list[NgramOrder] = []
    for order in range(len(widths), 0, -1):
        counts, escape = count(texts, order), escapes[order - 1]
        if order in known:
            counts = merged(counts_of(known[order], escape), counts)
        orders.append(make_order(counts, widths[order - 1], escape))
    return NgramTable(orders, target_digest)


def _halves(pairs: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], TokenIds]:
    return (pairs >> np.uint64(32)).astype(np.uint32), pairs.astype(np.uint32)


def _sorted(
    order: int, keys: NDArray[np.uint32], next_ids: TokenIds, counts: NDArray[np.int64]
) -> OrderCounts:
    places = np.lexsort((-counts, keys))
    return OrderCounts(order, keys[places], next_ids[places], counts[places])


def _totals(counts: OrderCounts) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The distinct contexts and how often each occurs."""
    keys, starts = np.unique(counts.keys, return_index=True)
    if not len(keys):
        return keys, np.empty(0, dtype=np.int64)
    return keys, np.add.reduceat(counts.counts, starts)
