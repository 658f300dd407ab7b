"""What an attention backend does for the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One layer's parameters; ``sliding_window`` counts the row itself, 0 means none."""

    index: int
    scaling: float
    sliding_window: int = 0
    soft_cap: float = 0.0


class AttentionBackend(Protocol):
    """Computes attention of all rows of a pass, layer by layer."""

    def plan(self, batch: ForwardBatch) -> Any:
        """What the layers of this pass share; handed back to ``attend``."""
        ...

    def attend(
        self,
        plan: Any,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        """Write key and value [rows, kv_heads, head_dim] to their slots, then attend.

        ``query`` is [rows, heads, head_dim]; the result has its shape and dtype.
        """
        ...
