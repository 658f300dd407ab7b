"""Texts in which a small model repeats itself without end teach little but that."""

from __future__ import annotations

from collections.abc import Sequence

GRAM_TOKENS = 4
MIN_DISTINCT_SHARE = 0.25


def is_loop(token_ids: Sequence[int]) -> bool:
    """Whether fewer than a quarter of the runs of four tokens are distinct."""
    grams = [
        tuple(token_ids[start : start + GRAM_TOKENS])
        for start in range(len(token_ids) - GRAM_TOKENS + 1)
    ]
    return bool(grams) and len(set(grams)) < MIN_DISTINCT_SHARE * len(grams)
