"""Lays the scheduled rows of all sequences out as one ForwardBatch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.forward_batch import ForwardBatch, IntArray
from dspark.verifier.scheduled_work import ScheduledWork


def build_batch(
    entries: Sequence[ScheduledWork], features: FeatureBuffer | None = None
) -> ForwardBatch:
    """Rows in the order of ``entries``: of each, the pending tokens and then the tree's nodes."""
    num_rows = [entry.num_rows for entry in entries]
    row_ends = np.array(list(accumulate(num_rows)))
    prefix_ends = [0, *accumulate(entry.end for entry in entries)]
    tails = _Tails()
    for entry in entries:
        tails.add_entry(entry)
    num_logits = np.array([entry.num_logits for entry in entries])
    return ForwardBatch(
        token_ids=np.concatenate([_token_ids(entry) for entry in entries]),
        positions=np.concatenate([_positions(entry) for entry in entries]),
        slot_mapping=np.concatenate([_row_slots(entry) for entry in entries]),
        prefix_slots=np.concatenate([e.sequence.table.slots[: e.end] for e in entries]),
        prefix_starts=np.repeat(np.array(prefix_ends[:-1], dtype=np.int32), num_rows),
        prefix_lens=np.concatenate([_prefix_lens(entry) for entry in entries]),
        tail_slots=np.array(tails.slots, dtype=np.int32),
        tail_starts=np.array(tails.starts, dtype=np.int32),
        tail_lens=np.array(tails.lens, dtype=np.int32),
        sequence_ids=np.repeat(np.arange(len(entries), dtype=np.int32), num_rows),
        block_tables=_block_tables(entries),
        logits_rows=np.concatenate(
            [np.arange(end - n, end) for end, n in zip(row_ends, num_logits, strict=True)]
        ).astype(np.int64),
        features=features,
    )


def _token_ids(entry: ScheduledWork) -> NDArray[np.int64]:
    pending = entry.sequence.tokens.ids[entry.start : entry.end]
    return np.concatenate([pending, np.array(entry.tree.token_ids, dtype=np.int64)])


def _positions(entry: ScheduledWork) -> NDArray[np.int64]:
    pending = np.arange(entry.start, entry.end, dtype=np.int64)
    return np.concatenate([pending, np.array(entry.tree.depths, dtype=np.int64) + (entry.end - 1)])


def _row_slots(entry: ScheduledWork) -> IntArray:
    return entry.sequence.table.slots[entry.start : entry.end + len(entry.tree)]


def _prefix_lens(entry: ScheduledWork) -> IntArray:
    pending = np.arange(entry.start + 1, entry.end + 1, dtype=np.int32)
    return np.concatenate([pending, np.full(len(entry.tree), entry.end, dtype=np.int32)])


def _block_tables(entries: Sequence[ScheduledWork]) -> IntArray:
    tables = [entry.sequence.table.block_ids() for entry in entries]
    padded = np.zeros((len(tables), max(map(len, tables))), dtype=np.int32)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table)] = table
    return padded


class _Tails:
    """Collects the path of each tree node; it extends its parent's path if that came last."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.starts: list[int] = []
        self.lens: list[int] = []

    def add_entry(self, entry: ScheduledWork) -> None:
        num_pending = entry.end - entry.start
        self.starts += [0] * num_pending
        self.lens += [0] * num_pending
        first_row = len(self.starts)
        node_slots = entry.sequence.table.slots[entry.end : entry.end + len(entry.tree)].tolist()
        for node, parent in enumerate(entry.tree.parents):
            parent_row = first_row + parent - 1 if parent else None
            self._add_node(node_slots[node], parent_row)

    def _add_node(self, slot: int, parent_row: int | None) -> None:
        start, length = len(self.slots), 0
        if parent_row is not None:
            start, length = self.starts[parent_row], self.lens[parent_row]
            if start + length != len(self.slots):
                path = self.slots[start : start + length]
                start = len(self.slots)
                self.slots += path
        self.slots.append(slot)
        self.starts.append(start)
        self.lens.append(length + 1)
