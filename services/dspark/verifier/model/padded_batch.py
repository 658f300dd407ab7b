"""Fills a pass up to a fixed number of rows with rows that nobody reads."""

from __future__ import annotations

import numpy as np

from dspark.verifier.forward_batch import ForwardBatch


def filler(num_rows: int, block: int, block_size: int) -> ForwardBatch:
    """Rows of one sequence, each its first token, in the first slot of ``block``."""
    zeros = np.zeros(num_rows, dtype=np.int32)
    return ForwardBatch(
        token_ids=np.zeros(num_rows, dtype=np.int64),
        positions=np.zeros(num_rows, dtype=np.int64),
        slot_mapping=zeros + block * block_size,
        prefix_slots=np.array([block * block_size], dtype=np.int32),
        prefix_starts=zeros,
        prefix_lens=zeros + 1,
        tail_slots=np.empty(0, dtype=np.int32),
        tail_starts=zeros,
        tail_lens=zeros,
        sequence_ids=zeros,
        block_tables=np.array([[block]], dtype=np.int32),
        logits_rows=np.arange(num_rows, dtype=np.int64),
    )


def padded(batch: ForwardBatch, num_rows: int, block: int, block_size: int) -> ForwardBatch:
    """The batch with filler after its rows, and as many logits rows as rows.

    The logits rows of the batch come first. ``block`` belongs to no sequence.
    """
    fill = filler(num_rows - batch.num_rows, block, block_size)
    spare = np.zeros(num_rows - len(batch.logits_rows), dtype=np.int64)
    tables = np.zeros((len(batch.block_tables) + 1, batch.block_tables.shape[1]), dtype=np.int32)
    tables[:-1] = batch.block_tables
    tables[-1, 0] = block
    return ForwardBatch(
        token_ids=np.concatenate((batch.token_ids, fill.token_ids)),
        positions=np.concatenate((batch.positions, fill.positions)),
        slot_mapping=np.concatenate((batch.slot_mapping, fill.slot_mapping)),
        prefix_slots=np.concatenate((batch.prefix_slots, fill.prefix_slots)),
        prefix_starts=np.concatenate(
            (batch.prefix_starts, fill.prefix_starts + np.int32(len(batch.prefix_slots)))
        ),
        prefix_lens=np.concatenate((batch.prefix_lens, fill.prefix_lens)),
        tail_slots=batch.tail_slots,
        tail_starts=np.concatenate((batch.tail_starts, fill.tail_starts)),
        tail_lens=np.concatenate((batch.tail_lens, fill.tail_lens)),
        sequence_ids=np.concatenate(
            (batch.sequence_ids, fill.sequence_ids + np.int32(len(batch.block_tables)))
        ),
        block_tables=tables,
        logits_rows=np.concatenate((batch.logits_rows, spare)),
    )
