"""Small passes for checks and measurements, written row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dspark.verifier.forward_batch import ForwardBatch


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """A row that sees ``prefix`` and then ``tail`` slots; the last of them is its own."""

    token_id: int
    prefix: tuple[int, ...]
    tail: tuple[int, ...] = ()

    @property
    def position(self) -> int:
        return len(self.prefix) + len(self.tail) - 1

    @property
    def slot(self) -> int:
        return (self.prefix + self.tail)[-1]


def plain_rows(token_ids: Sequence[int], slots: Sequence[int], start: int = 0) -> list[ProbeRow]:
    """Rows ``start`` onwards of a sequence whose token i lies at ``slots[i]``."""
    return [ProbeRow(token_ids[i], tuple(slots[: i + 1])) for i in range(start, len(token_ids))]


def probe_batch(
    rows: Sequence[ProbeRow], logits_rows: Sequence[int], block_size: int
) -> ForwardBatch:
    """The rows as one pass.

    Neighbours of which one's prefix begins the other's are rows of one sequence. Block tables are
    right for prefixes whose position p lies at offset p % block_size of a block.
    """
    sequences = list(_sequences(rows))
    longest = [max((row.prefix for row in own), key=len) for own in sequences]
    width = max(map(len, longest)) // block_size + 1
    tables = np.zeros((len(sequences), width), dtype=np.int32)
    for table, prefix in zip(tables, longest, strict=True):
        blocks = [slot // block_size for slot in prefix[::block_size]]
        table[: len(blocks)] = blocks
    counts = [len(own) for own in sequences]
    return ForwardBatch(
        token_ids=np.array([row.token_id for row in rows], dtype=np.int64),
        positions=np.array([row.position for row in rows], dtype=np.int64),
        slot_mapping=_int32([row.slot for row in rows]),
        prefix_slots=np.concatenate([_int32(prefix) for prefix in longest]),
        prefix_starts=np.repeat(_starts([len(prefix) for prefix in longest]), counts),
        prefix_lens=_int32([len(row.prefix) for row in rows]),
        tail_slots=_int32([slot for row in rows for slot in row.tail]),
        tail_starts=_starts([len(row.tail) for row in rows]),
        tail_lens=_int32([len(row.tail) for row in rows]),
        sequence_ids=np.repeat(np.arange(len(sequences), dtype=np.int32), counts),
        block_tables=tables,
        logits_rows=np.array(logits_rows, dtype=np.int64),
    )


def _sequences(rows: Sequence[ProbeRow]) -> Iterator[Sequence[ProbeRow]]:
    first, longest = 0, rows[0].prefix
    for index, row in enumerate(rows):
        short, long = sorted((longest, row.prefix), key=len)
        if short is not long and long[: len(short)] != short:
            yield rows[first:index]
            first, long = index, row.prefix
        longest = long
    yield rows[first:]


def _int32(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def _starts(lens: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.concatenate(([0], np.cumsum(lens)[:-1])).astype(np.int32)
