"""The KV blocks of one sequence."""

from __future__ import annotations

import numpy as np

from dspark.verifier.forward_batch import IntArray


class BlockTable:
    """Blocks in token order, with the slot of every token position kept as an array.

    Index ranges of a sequence of ``num_tokens`` tokens, of which ``num_computed`` have K/V:

    - [0, num_cached_tokens): shared with other sequences, never written
    - [num_cached_tokens, num_computed): written; full blocks of it may be retained in the prefix
      cache
    - [num_computed, num_tokens): pending, written by the next forward passes
    - [num_tokens, capacity): tree nodes of the running step
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._offsets = np.arange(block_size, dtype=np.int32)
        self._slots = np.empty(block_size * 8, dtype=np.int32)
        self.blocks: list[int] = []

    @property
    def capacity(self) -> int:
        """Token positions that have a slot."""
        return len(self.blocks) * self._block_size

    @property
    def slots(self) -> IntArray:
        """[capacity] slot of each token position; a view."""
        return self._slots[: self.capacity]

    def block_ids(self) -> IntArray:
        """[num_blocks] the blocks as an array."""
        return self.slots[:: self._block_size] // np.int32(self._block_size)

    def num_missing(self, num_tokens: int) -> int:
        """Blocks to append until ``num_tokens`` positions have a slot."""
        return max(0, -(-num_tokens // self._block_size) - len(self.blocks))

    def append(self, blocks: list[int]) -> None:
        start = self.capacity
        self.blocks.extend(blocks)
        while self.capacity > len(self._slots):
            self._slots = np.concatenate([self._slots, np.empty_like(self._slots)])
        for block in blocks:
            self._slots[start : start + self._block_size] = block * self._block_size + self._offsets
            start += self._block_size

    def trim(self, num_tokens: int) -> list[int]:
        """Remove and return the blocks past the first ``num_tokens`` positions."""
        keep = -(-num_tokens // self._block_size)
        removed = self.blocks[keep:]
        del self.blocks[keep:]
        return removed
