"""Tokens that the target is likely to draw anywhere: rivals for candidates with few siblings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

NUM_TOKENS = 128


class LikelyTokens:
    """The last different tokens that were committed."""

    def __init__(self, size: int = NUM_TOKENS) -> None:
        self._size = size
        # In the order of their last use.
        self._tokens: dict[int, None] = {}

    def note(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            self._tokens.pop(token_id, None)
            self._tokens[token_id] = None
        while len(self._tokens) > self._size:
            del self._tokens[next(iter(self._tokens))]

    def together_with(self, token_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """These and others, each once, ascending."""
        own = np.fromiter(self._tokens, dtype=np.int64, count=len(self._tokens))
        return np.unique(np.concatenate([token_ids, own]))
