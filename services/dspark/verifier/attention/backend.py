"""What an attention backend does for the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class StaticBackend(AttentionBackend, Protocol):
    """A backend whose passes can be recorded: a plan's tensors may be filled again."""

    def static_plan(self, batch: ForwardBatch, kv_cache: KvCache, max_blocks: int) -> Any:
        """A plan whose tensors keep their places and sizes when it is refilled.

        ``batch`` has as many rows as every later one; sequences of at most ``max_blocks`` KV
        blocks fit.
        """
        ...

    def refill(self, plan: Any, batch: ForwardBatch, kv_cache: KvCache) -> bool:
        """Make a static plan stand for another batch; False, and nothing done, if it cannot."""
        ...
