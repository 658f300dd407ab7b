"""Which token ids can exist."""

from __future__ import annotations

from collections.abc import Iterable


class Vocabulary:
    """Token ids below ``size``: the given one, or else the largest id seen so far plus one."""

    def __init__(self, size: int | None = None) -> None:
        self._is_fixed = size is not None
        self.size = size or 0

    def note(self, token_ids: Iterable[int]) -> None:
        """These token ids exist."""
        if not self._is_fixed:
            self.size = max(self.size, max(token_ids, default=-1) + 1)
