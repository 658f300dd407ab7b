"""Attention by the CPU kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.native.library import Team
from dspark.verifier.native.structs import (
    AttentionBatchStruct,
    AttentionParamsStruct,
    HeadShapeStruct,
)

LANES = 8


@dataclass(frozen=True, slots=True)
class NativePlan:
    """Pointers into the batch's arrays, which it keeps alive."""

    struct: AttentionBatchStruct
    arrays: tuple[np.ndarray[tuple[int], np.dtype[np.int32]], ...]


def native_plan(batch: ForwardBatch) -> NativePlan:
    """The batch's index arrays as the kernels read them."""
    arrays = tuple(
        np.ascontiguousarray(array, dtype=np.int32)
        for array in (
            batch.slot_mapping,
            batch.prefix_slots,
            batch.prefix_starts,
            batch.prefix_lens,
            batch.tail_slots,
            batch.tail_starts,
            batch.tail_lens,
        )
    )
    return NativePlan(AttentionBatchStruct(*(a.ctypes.data for a in arrays)), arrays)


class NativeAttention:
    """Each row's result depends on its own list of slots alone (attention.h says how)."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def plan(self, batch: ForwardBatch) -> NativePlan:
        return native_plan(batch)

    def attend(
        self,
        plan: NativePlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        """Raises ValueError for shapes that are not the pool's or not whole vectors."""
        num_rows, num_heads, head_dim = query.shape
        if key.shape[1:] != kv_cache.slots.shape[3:] or value.shape != key.shape:
            raise ValueError(f"K/V rows are {tuple(key.shape[1:])}, the pool has another shape")
        if head_dim % LANES:
            raise ValueError(f"head_dim {head_dim} is not a multiple of {LANES}")
        keys, values = kv_cache.layer(layer.index)
        q, k, v = (t.float().contiguous() for t in (query, key, value))
        out = torch.empty(num_rows, num_heads, head_dim)
        self._team.library.dspark_attention(
            self._team.handle,
            ctypes.byref(
                HeadShapeStruct(num_heads, key.shape[1], head_dim, keys.dtype == torch.bfloat16)
            ),
            ctypes.byref(
                AttentionParamsStruct(layer.scaling, layer.soft_cap, layer.sliding_window)
            ),
            ctypes.byref(plan.struct),
            num_rows,
            *(t.data_ptr() for t in (q, k, v, keys, values, out)),
        )
        return out.to(query.dtype)
