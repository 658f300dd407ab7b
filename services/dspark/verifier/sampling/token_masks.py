"""Tokens that must not be drawn: outside a set, at the end of a bad word, or too early an end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.logits_processor import LogitsProcessor

_NEVER = np.float32(-np.inf)


class AllowedTokens:
    """Only these may be drawn."""

    def __init__(self, token_ids: Collection[int]) -> None:
        self._ids = np.array(sorted(token_ids), dtype=np.int64)

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        kept = logits[self._ids]
        logits.fill(_NEVER)
        logits[self._ids] = kept


class BadWords:
    """A word's last token may not be drawn where the output ends with the tokens before it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ends: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for *start, end in history.sampling.bad_words:
            self._ends[tuple(start)].append(end)
        self._lengths = sorted({len(start) for start in self._ends})

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        longest = self._history.last_generated(self._lengths[-1], path)
        for length in self._lengths:
            start = longest[len(longest) - length :] if length <= len(longest) else None
            if start in self._ends:
                logits[self._ends[start]] = _NEVER


class MinTokens:
    """No token that ends the sequence may be drawn before so many others."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._min_tokens = history.sampling.min_tokens
        self._ids = np.array(sorted(history.stop_token_ids), dtype=np.int64)

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        if self._history.num_generated(path) < self._min_tokens:
            logits[self._ids] = _NEVER


def make_allowed_tokens(history: History) -> LogitsProcessor | None:
    """None where all are allowed."""
    allowed = history.sampling.allowed_token_ids
    return AllowedTokens(allowed) if allowed else None


def make_bad_words(history: History) -> LogitsProcessor | None:
    """None where there are none."""
    return BadWords(history) if history.sampling.bad_words else None


def make_min_tokens(history: History) -> LogitsProcessor | None:
    """None where it has no effect from the start, or is over."""
    is_over = history.num_generated(()) >= history.sampling.min_tokens
    return None if is_over or not history.stop_token_ids else MinTokens(history)
