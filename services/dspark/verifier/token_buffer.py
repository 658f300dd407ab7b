"""A sequence's token ids as an array that grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TokenBuffer:
    """Token ids in order, appended at the end."""

    def __init__(self, token_ids: Sequence[int]) -> None:
        self._size = len(token_ids)
        self._data = np.empty(self._size + 256, dtype=np.int64)
        self._data[: self._size] = token_ids

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> NDArray[np.int64]:
        """[len(self)] the token ids; a view."""
        return self._data[: self._size]

    def extend(self, token_ids: Sequence[int]) -> None:
        end = self._size + len(token_ids)
        if end > len(self._data):
            self._data = np.concatenate([self._data, np.empty(end, dtype=np.int64)])
        self._data[self._size : end] = token_ids
        self._size = end
