"""Attention by flash-attn's paged kernels on CUDA; tree paths are merged in by log-sum-exp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.lse_merge import merge_by_lse
from dspark.verifier.attention.tail_attention import attend_tail
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache


@dataclass(frozen=True, slots=True)
class TailRows:
    """The rows whose tails have one length: ``rows`` [n], ``slots`` [n, length]."""

    length: int
    rows: torch.Tensor
    slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class FlashPlan:
    """A pass on the device; each row is a sequence of one query to the kernel."""

    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    prefix_lens: torch.Tensor
    tails: tuple[TailRows, ...]


def tails_by_length(batch: ForwardBatch, device: torch.device | str) -> tuple[TailRows, ...]:
    """All rows grouped by the length of their tail, 0 included."""
    groups = []
    for length in np.unique(batch.tail_lens).tolist():
        rows = np.flatnonzero(batch.tail_lens == length)
        index = batch.tail_starts[rows][:, None] + np.arange(length, dtype=np.int64)
        slots = batch.tail_slots[index].astype(np.int64)
        groups.append(
            TailRows(length, torch.from_numpy(rows).to(device), torch.from_numpy(slots).to(device))
        )
    return tuple(groups)


class FlashAttention:
    """Prefixes by ``flash_attn_with_kvcache``, tails in torch. Imports flash-attn when made.

    The merge rounds differently from one pass over the whole path, so tree rows are not bitwise
    equal to plain ones.
    """

    def __init__(self) -> None:
        from flash_attn import flash_attn_with_kvcache

        self._attend_prefix = flash_attn_with_kvcache

    def plan(self, batch: ForwardBatch) -> FlashPlan:
        device = torch.device("cuda")
        table = batch.block_tables[batch.sequence_ids]
        return FlashPlan(
            slot_mapping=torch.from_numpy(batch.slot_mapping).to(device).long(),
            block_table=torch.from_numpy(np.ascontiguousarray(table)).to(device),
            prefix_lens=torch.from_numpy(batch.prefix_lens).to(device),
            tails=tails_by_length(batch, device),
        )

    def attend(
        self,
        plan: FlashPlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        kv_cache.write(layer.index, plan.slot_mapping, key, value)
        out = torch.empty_like(query)
        for group in plan.tails:
            out[group.rows] = self._attend_group(plan, layer, kv_cache, query, group)
        return out

    def _attend_group(
        self,
        plan: FlashPlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        group: TailRows,
    ) -> torch.Tensor:
        rows = query[group.rows].to(kv_cache.dtype)
        # The tail fills the end of the window; what is left of it reaches into the prefix.
        window = layer.sliding_window - group.length if layer.sliding_window else 0
        keys, values = kv_cache.layer(layer.index)
        if group.length and layer.sliding_window and window <= 0:
            lens = torch.full_like(group.rows, group.length)
            return attend_tail(layer, rows, keys, values, group.slots, lens)[0].to(query.dtype)
        out, lse, *_ = self._attend_prefix(
            rows[:, None],
            kv_cache.tensor[layer.index, 0],
            kv_cache.tensor[layer.index, 1],
            cache_seqlens=plan.prefix_lens[group.rows],
            block_table=plan.block_table[group.rows],
            softmax_scale=layer.scaling,
            causal=True,
            window_size=(window - 1, 0) if window else (-1, -1),
            softcap=layer.soft_cap,
            # One split: more would make the order of sums depend on the batch.
            num_splits=1,
            return_softmax_lse=True,
        )
        if not group.length:
            return torch.as_tensor(out)[:, 0].to(query.dtype)
        lens = torch.full_like(group.rows, group.length)
        tail, tail_lse = attend_tail(layer, rows, keys, values, group.slots, lens)
        return merge_by_lse(out[:, 0], lse[:, :, 0], tail, tail_lse).to(query.dtype)
