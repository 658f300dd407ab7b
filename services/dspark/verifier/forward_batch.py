"""The rows of one forward pass: made by the engine, read by the model and attention backends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.feature_buffer import FeatureBuffer

IntArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """Rows of all sequences, flat.

    A row attends to ``prefix`` slots, then ``tail`` slots, in this order, which is position order;
    its own slot is the last of them. So a tree node sees the committed tokens and its ancestors
    exactly as it would see them once they are committed, and its result does not depend on where
    the tree's K/V lies in the pool. A slot is ``block * block_size + offset``.
    """

    # [num_rows] token ids
    token_ids: NDArray[np.int64]
    # [num_rows] absolute positions (a node's is the anchor's plus its depth)
    positions: NDArray[np.int64]
    # [num_rows] slot that receives the row's K/V
    slot_mapping: IntArray
    # [num_slots] slots of each sequence's prefix, sequence after sequence, in position order
    prefix_slots: IntArray
    # [num_rows] where the row's prefix starts in prefix_slots, and how long it is
    prefix_starts: IntArray
    prefix_lens: IntArray
    # [num_tail_slots] slots of tree paths, path after path, in position order
    tail_slots: IntArray
    # [num_rows] where the row's tail starts in tail_slots, and how long it is (0 for plain rows)
    tail_starts: IntArray
    tail_lens: IntArray
    # [num_rows] index of the row's sequence
    sequence_ids: IntArray
    # [num_sequences, max_blocks] block table of each sequence, padded with 0
    block_tables: IntArray
    # [num_logits] rows whose logits are wanted, ascending
    logits_rows: NDArray[np.int64]
    # hidden states that are wanted, if any
    features: FeatureBuffer | None = None

    @property
    def num_rows(self) -> int:
        return len(self.token_ids)
