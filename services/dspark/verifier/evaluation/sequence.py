"""One sequence at a time over the KV pool, in passes of a bounded number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.evaluation.log_probabilities import Logits
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import ModelRunner

TokenIds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SequenceRunner:
    """Runs sequences whose token i lies in slot i; each overwrites the one before."""

    runner: ModelRunner
    block_size: int
    max_rows: int

    def logits(self, token_ids: TokenIds, start: int, wanted_from: int) -> Iterator[Logits]:
        """Compute the rows from ``start`` on; yield logits of those from ``wanted_from`` on.

        The rows before ``start`` were computed by earlier calls with the same tokens. An array
        [some rows, vocab_size] is valid until the next one is asked for.
        """
        for first in range(start, len(token_ids), self.max_rows):
            last = min(first + self.max_rows, len(token_ids))
            batch = sequence_batch(token_ids[:last], first, wanted_from, self.block_size)
            logits = self.runner.forward(batch)
            if len(batch.logits_rows):
                yield logits


def sequence_batch(
    token_ids: TokenIds, start: int, wanted_from: int, block_size: int
) -> ForwardBatch:
    """The rows of a sequence from ``start`` to its end, with logits from ``wanted_from`` on."""
    end = len(token_ids)
    positions = np.arange(start, end, dtype=np.int64)
    slots = np.arange(end, dtype=np.int32)
    nothing = np.zeros(end - start, dtype=np.int32)
    return ForwardBatch(
        token_ids=token_ids[start:],
        positions=positions,
        slot_mapping=slots[start:],
        prefix_slots=slots,
        prefix_starts=nothing,
        prefix_lens=slots[start:] + np.int32(1),
        tail_slots=np.zeros(0, dtype=np.int32),
        tail_starts=nothing,
        tail_lens=nothing,
        sequence_ids=nothing,
        block_tables=np.arange(-(-end // block_size), dtype=np.int32)[None],
        logits_rows=np.arange(max(wanted_from - start, 0), end - start, dtype=np.int64),
    )
