"""Counts what follows each context in the target's own texts.

A place counts for the token that the text has there, or is shared out among those that the target
held for likely there (distillation, Hinton et al. 2015, arXiv:1503.02531): that tells of a token's
siblings too, and of a context that occurs once as much as the target knew of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.ngram_table import MAX_SCORE, NgramOrder

_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
TokenIds = NDArray[np.uint32]
# Scores of eight bits do not tell how often a context occurred of which they leave less open.
MAX_SPENT = 1 - 1 / MAX_SCORE


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """Contexts of ``order`` tokens: hash, next token and count of each distinct pair, sorted by
    hash, then by falling count; and how often each distinct context occurs, by rising hash.
    """

    order: int
    keys: NDArray[np.uint32]
    next_ids: TokenIds
    counts: NDArray[np.float64]
    totals: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NgramText:
    """Tokens of a text, of which the first ``start`` are context only.

    ``next_ids`` and ``shares``, both [len - start, width], have what each further place counts for.
    """

    token_ids: TokenIds
    start: int
    next_ids: TokenIds
    shares: NDArray[np.float32]

    @classmethod
    def of(cls, token_ids: TokenIds, start: int) -> NgramText:
        """Each place counts for its own token."""
        own = token_ids[start:, None]
        return cls(token_ids, start, own, np.ones(own.shape, dtype=np.float32))


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


def count(texts: Sequence[NgramText], order: int) -> OrderCounts:
    """What follows each context of ``order`` tokens at all counted places of all texts."""
    keys, next_ids, shares = _places(texts, order)
    contexts = np.broadcast_to(keys[:, None], next_ids.shape)
    return _summed(order, contexts.ravel(), next_ids.ravel(), shares.ravel(), _times(keys))


def _places(
    texts: Sequence[NgramText], order: int
) -> tuple[NDArray[np.uint32], TokenIds, NDArray[np.float32]]:
    """Of every place that has ``order`` tokens before it: their hash, next ids and shares."""
    width = max((text.next_ids.shape[1] for text in texts), default=1)
    keys: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    next_ids: list[TokenIds] = [np.empty((0, width), np.uint32)]
    shares: list[NDArray[np.float32]] = [np.empty((0, width), np.float32)]
    for text in texts:
        first = max(text.start, order)
        if first < len(text.token_ids):
            keys.append(context_hashes(text.token_ids[first - order : -1], order))
            next_ids.append(text.next_ids[first - text.start :].astype(np.uint32))
            shares.append(text.shares[first - text.start :])
    return np.concatenate(keys), np.concatenate(next_ids), np.concatenate(shares)


def counts_of(order: NgramOrder, escape: float) -> OrderCounts:
    """About what an order of a table was made of: its scores are shares of an unknown total, which
    their sum tells apart from ``escape``.
    """
    keys = np.array(order.keys, dtype=np.uint32)
    token_ids = np.array(order.token_ids, dtype=np.uint32).reshape(len(keys), order.width)
    scores = np.array(order.scores, dtype=np.float64).reshape(token_ids.shape) / MAX_SCORE
    totals = escape / (1 - np.minimum(scores.sum(axis=1), MAX_SPENT))
    kept = scores > 0
    rows = np.broadcast_to(keys[:, None], kept.shape)[kept]
    counts = (scores * totals[:, None])[kept]
    times = dict(zip(keys.tolist(), (totals - escape).tolist(), strict=True))
    return _summed(order.order, rows, token_ids[kept], counts, times)


def merged(first: OrderCounts, second: OrderCounts) -> OrderCounts:
    """The counts of both. Raises ValueError if their contexts are not of one length."""
    if first.order != second.order:
        raise ValueError(f"contexts of {first.order} and of {second.order} tokens")
    times = _times_of(first)
    for key, occurrences in _times_of(second).items():
        times[key] = times.get(key, 0.0) + occurrences
    return _summed(
        first.order,
        np.concatenate((first.keys, second.keys)),
        np.concatenate((first.next_ids, second.next_ids)),
        np.concatenate((first.counts, second.counts)),
        times,
    )


def _times(keys: NDArray[np.uint32]) -> dict[int, float]:
    """How often each key occurs."""
    distinct, times = np.unique(keys, return_counts=True)
    return dict(zip(distinct.tolist(), times.astype(np.float64).tolist(), strict=True))


def _times_of(counts: OrderCounts) -> dict[int, float]:
    distinct = np.unique(counts.keys).tolist()
    return dict(zip(distinct, counts.totals.tolist(), strict=True))


def _summed(
    order: int,
    keys: NDArray[np.uint32],
    next_ids: TokenIds,
    counts: NDArray[np.floating],
    times: dict[int, float],
) -> OrderCounts:
    """The counts of equal pairs added up; ``times`` says how often each context occurs."""
    pairs = keys.astype(np.uint64) << np.uint64(32) | next_ids
    distinct, places = np.unique(pairs, return_inverse=True)
    sums = np.bincount(places, weights=counts, minlength=len(distinct)).astype(np.float64)
    pair_keys = (distinct >> np.uint64(32)).astype(np.uint32)
    ranked = np.lexsort((-sums, pair_keys))
    totals = np.array([times[key] for key in np.unique(pair_keys).tolist()], dtype=np.float64)
    return OrderCounts(
        order, pair_keys[ranked], distinct.astype(np.uint32)[ranked], sums[ranked], totals
    )
