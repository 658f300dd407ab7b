"""Connects transformers' attention interface to an attention backend over the KV pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dspark.verifier.attention.backend import AttentionBackend, AttentionLayer
from dspark.verifier.interfaces import ModelRefused
from dspark.verifier.kv.kv_cache import KvCache

NAME = "dspark"
_IGNORED = frozenset(
    {
        "dropout",
        "position_ids",
        "use_cache",
        "cache",
        "is_causal",
        "layer_type",
        "output_hidden_states",
    }
)


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """What the layers of one pass share."""

    backend: AttentionBackend
    plan: Any
    kv_cache: KvCache


def register() -> None:
    """Make ``attn_implementation="dspark"`` known to transformers."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    ctx: AttentionContext,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **extra: Any,
) -> tuple[torch.Tensor, None]:
    """Called by each attention module; tensors are [1, heads, rows, head_dim].

    Raises ModelRefused for an argument that changes attention in a way no backend knows.
    """
    unknown = sorted(
        n for n, v in extra.items() if v is not None and v is not False and n not in _IGNORED
    )
    if unknown or attention_mask is not None:
        names = ", ".join(unknown or ["attention_mask"])
        raise ModelRefused(f"{type(module).__name__} passes {names} to attention")
    layer = AttentionLayer(
        index=module.layer_idx,
        scaling=module.head_dim**-0.5 if scaling is None else float(scaling),
        sliding_window=int(sliding_window or 0),
        soft_cap=float(softcap or getattr(module, "attn_logit_softcapping", None) or 0.0),
    )
    q, k, v = (t[0].transpose(0, 1) for t in (query, key, value))
    return ctx.backend.attend(ctx.plan, layer, ctx.kv_cache, q, k, v).unsqueeze(0), None
