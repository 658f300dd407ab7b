"""The seams inside the verifier: who runs the model, and where K/V lives."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.forward_batch import ForwardBatch, IntArray


class ModelRunner(Protocol):
    """Runs the target model over rows. Not thread-safe: the engine's one thread calls it."""

    vocab_size: int
    max_model_len: int
    eos_token_ids: frozenset[int]

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Write each row's K/V to its slot and return logits, float32 [num_logits, vocab_size]."""
        ...


class KvStore(Protocol):
    """The KV pool's memory, addressed by slot."""

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy all layers' K/V from source to destination slots; reads happen before writes."""
        ...
