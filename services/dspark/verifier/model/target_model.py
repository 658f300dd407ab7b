"""The model behind the engine's runner, and the runner itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.pruning.cut import Cut


class TargetModel(Protocol):
    """Computes logits of flat rows over a KV pool."""

    vocab_size: int
    hidden_size: int
    feature_layers: tuple[int, ...]

    def forward(self, batch: ForwardBatch, kv_cache: KvCache) -> NDArray[np.float32]:
        """Write each row's K/V to its slot and return logits [num_logits, vocab_size].

        The array is valid until the next call.
        """
        ...


@runtime_checkable
class CuttingModel(Protocol):
    """A TargetModel that can let rows drop out after some of its layers."""

    num_layers: int

    def forward_cut(self, batch: ForwardBatch, kv_cache: KvCache, cut: Cut) -> NDArray[np.float32]:
        """As ``forward``; see CuttingRunner."""
        ...


@dataclass(slots=True)
class Runner:
    """A model bound to its KV pool: the engine's ModelRunner."""

    model: TargetModel
    kv_cache: KvCache
    vocab_size: int
    max_model_len: int
    eos_token_ids: frozenset[int]

    @property
    def hidden_size(self) -> int:
        return self.model.hidden_size

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self.model.feature_layers

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        return self.model.forward(batch, self.kv_cache)


@dataclass(slots=True)
class CutRunner:
    """A model that can cut its passes, bound to its KV pool: a CuttingRunner."""

    model: CuttingModel
    kv_cache: KvCache

    @property
    def num_layers(self) -> int:
        return self.model.num_layers

    def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
        return self.model.forward_cut(batch, self.kv_cache, cut)
