"""Where FlexAttention finds what each row sees, such that a row's sums have one order.

Rows of one sequence form groups of up to 16, the height of one tile of the kernel. A group reads
whole KV blocks, in position order, and each row masks what it does not see. A block that a row sees
nothing of leaves its sums as they are, to the bit.

A node of a tree need not lie where it would lie once committed. Such a row reads the last blocks of
its path from copies in scratch blocks, where every token is at its own position: its sums then have
the order of plain decoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dspark.verifier.forward_batch import ForwardBatch, IntArray

GROUP_ROWS = 16


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The KV pool in blocks; scratch blocks follow the others, the last is never copied to."""

    num_blocks: int
    num_scratch_blocks: int
    block_size: int

    @property
    def num_all_blocks(self) -> int:
        return self.num_blocks + self.num_scratch_blocks

    @property
    def num_copies(self) -> int:
        """Blocks that copies may fill."""
        return max(0, self.num_scratch_blocks - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Up to 16 rows of one sequence: the blocks that they share, then copies for single rows."""

    rows: range
    shared: IntArray
    copies: IntArray

    def blocks(self, first: int) -> IntArray:
        """[n] blocks to read, leaving out the first ``first`` shared ones."""
        return np.concatenate((self.shared[first:], self.copies))


@dataclass(frozen=True, slots=True)
class FlexLayout:
    """A slice of a pass. Places are ``group * 16 + index``; a place without a row sees nothing.

    ``lens`` [places] is what a row sees in all, ``shared_lens`` [places] how much of it in shared
    blocks. ``block_index`` and ``owners`` [all blocks] tell each block's position in its sequence,
    counted in blocks, and the place that a copy belongs to (-1: shared). Copies are made from
    ``sources`` to ``destinations``, which are slots.
    """

    rows: range
    groups: tuple[Group, ...]
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    lens: IntArray
    shared_lens: IntArray
    block_index: IntArray
    owners: IntArray
    sources: np.ndarray[tuple[int], np.dtype[np.int64]]
    destinations: np.ndarray[tuple[int], np.dtype[np.int64]]

    def first_blocks(self, window: int, block_size: int) -> list[int]:
        """For each group the shared blocks at its start that no row sees through ``window``."""
        if not window:
            return [0] * len(self.groups)
        starts = [int(self.lens[self._places_of(i)].min()) - window for i in range(self.num_groups)]
        return [max(0, start) // block_size for start in starts]

    @property
    def num_groups(self) -> int:
        return len(self.groups)

    def _places_of(self, group: int) -> slice:
        first = group * GROUP_ROWS
        return slice(first, first + len(self.groups[group].rows))


def layouts(batch: ForwardBatch, pool: PoolShape) -> Iterator[FlexLayout]:
    """The pass in as few slices as the scratch blocks allow.

    Raises ValueError for a path that needs more copies than there are scratch blocks.
    """
    copied = _copied_blocks(batch, pool.block_size)
    first = used = 0
    for row, count in enumerate(copied.tolist()):
        if count > pool.num_copies:
            raise ValueError(f"a path needs {count} scratch blocks of {pool.num_copies}")
        if used + count > pool.num_copies:
            yield _Builder(batch, pool, copied).build(range(first, row))
            first, used = row, 0
        used += count
    yield _Builder(batch, pool, copied).build(range(first, batch.num_rows))


def _copied_blocks(batch: ForwardBatch, block_size: int) -> IntArray:
    """[rows] blocks that each row needs copies of; none if it lies where it would be committed."""
    counts = np.zeros(batch.num_rows, dtype=np.int32)
    for row in np.flatnonzero(batch.tail_lens).tolist():
        if not _lies_in_place(batch, row, block_size):
            prefix_len, tail_len = int(batch.prefix_lens[row]), int(batch.tail_lens[row])
            last = (prefix_len + tail_len - 1) // block_size
            counts[row] = last - prefix_len // block_size + 1
    return counts


def _lies_in_place(batch: ForwardBatch, row: int, block_size: int) -> bool:
    tail = _tail(batch, row)
    positions = batch.prefix_lens[row] + np.arange(len(tail))
    table = batch.block_tables[batch.sequence_ids[row]]
    if positions[-1] // block_size >= len(table):
        return False
    expected = table[positions // block_size] * block_size + positions % block_size
    return bool(np.array_equal(expected, tail))


def _tail(batch: ForwardBatch, row: int) -> IntArray:
    start = batch.tail_starts[row]
    return batch.tail_slots[start : start + batch.tail_lens[row]]


class _Builder:
    """Fills the arrays of one slice, group by group."""

    def __init__(self, batch: ForwardBatch, pool: PoolShape, copied: IntArray) -> None:
        self._batch = batch
        self._size = pool.block_size
        self._copied = copied
        self._next_scratch = pool.num_blocks
        self._block_index = np.zeros(pool.num_all_blocks, dtype=np.int32)
        self._owners = np.full(pool.num_all_blocks, -1, dtype=np.int32)
        self._sources: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._destinations: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def build(self, rows: range) -> FlexLayout:
        batch = self._batch
        spans = list(_spans(batch.sequence_ids, rows))
        shape = len(spans) * GROUP_ROWS
        lens, shared_lens = np.zeros((2, shape), dtype=np.int32)
        places = np.empty(len(rows), dtype=np.int64)
        groups = []
        for index, span in enumerate(spans):
            part, first = slice(span.start, span.stop), index * GROUP_ROWS
            own = slice(first, first + len(span))
            lens[own] = batch.prefix_lens[part] + batch.tail_lens[part]
            aligned = batch.prefix_lens[part] // self._size * self._size
            shared_lens[own] = np.where(self._copied[part] > 0, aligned, lens[own])
            places[span.start - rows.start : span.stop - rows.start] = np.arange(
                first, first + len(span)
            )
            groups.append(self._group(span, int(shared_lens[own].max()), first))
        return FlexLayout(
            rows,
            tuple(groups),
            places,
            lens,
            shared_lens,
            self._block_index,
            self._owners,
            np.concatenate([np.empty(0, np.int64), *self._sources]),
            np.concatenate([np.empty(0, np.int64), *self._destinations]),
        )

    def _group(self, rows: range, shared_len: int, first_place: int) -> Group:
        table = self._batch.block_tables[self._batch.sequence_ids[rows.start]]
        shared = table[: -(-shared_len // self._size)]
        self._block_index[shared] = np.arange(len(shared), dtype=np.int32)
        copies = [
            self._copy(row, first_place + offset)
            for offset, row in enumerate(rows)
            if self._copied[row]
        ]
        return Group(rows, shared, np.concatenate([np.empty(0, np.int32), *copies]))

    def _copy(self, row: int, place: int) -> IntArray:
        """Copies of the last blocks of a row's path, from the one its prefix ends in."""
        batch, count = self._batch, int(self._copied[row])
        blocks = np.arange(self._next_scratch, self._next_scratch + count, dtype=np.int32)
        self._next_scratch += count
        prefix_len = int(batch.prefix_lens[row])
        start = prefix_len // self._size
        self._owners[blocks] = place
        self._block_index[blocks] = np.arange(start, start + count, dtype=np.int32)
        prefix_start = int(batch.prefix_starts[row])
        prefix = batch.prefix_slots[prefix_start + start * self._size : prefix_start + prefix_len]
        sources = np.concatenate((prefix, _tail(batch, row))).astype(np.int64)
        self._sources.append(sources)
        self._destinations.append(int(blocks[0]) * self._size + np.arange(len(sources)))
        return blocks


def _spans(sequence_ids: IntArray, rows: range) -> Iterator[range]:
    """Consecutive rows of one sequence, at most 16 at a time."""
    first = rows.start
    for row in range(rows.start + 1, rows.stop + 1):
        ended = row == rows.stop or sequence_ids[row] != sequence_ids[first]
        if ended or row - first == GROUP_ROWS:
            yield range(first, row)
            first = row
