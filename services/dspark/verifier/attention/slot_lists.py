"""Each row's slots in position order, padded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.forward_batch import ForwardBatch


class SlotLists:
    """The slots that each row attends to: its prefix, then its tail."""

    def __init__(self, batch: ForwardBatch) -> None:
        self._batch = batch
        self.lens = (batch.prefix_lens + batch.tail_lens).astype(np.int64)

    @property
    def max_len(self) -> int:
        return int(self.lens.max())

    def of(self, row: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """The slots of one row, in position order."""
        batch = self._batch
        prefix, tail = batch.prefix_starts[row], batch.tail_starts[row]
        return np.concatenate(
            (
                batch.prefix_slots[prefix : prefix + batch.prefix_lens[row]],
                batch.tail_slots[tail : tail + batch.tail_lens[row]],
            )
        )

    def padded(self, rows: range, *, multiple: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slots [len(rows), width] and lengths [len(rows)] of some rows.

        The width is a multiple of ``multiple``; padding repeats the row's first slot, whose K/V
        is valid.
        """
        lens = self.lens[rows.start : rows.stop]
        width = -(-int(lens.max()) // multiple) * multiple
        slots = np.empty((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            own = self.of(row)
            slots[index, : len(own)] = own
            slots[index, len(own) :] = own[0]
        return slots, lens
