"""Attention by flash-attn's paged kernels on CUDA; tree paths are merged in by log-sum-exp."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.lse_merge import merge_by_lse
from dspark.verifier.attention.tail_attention import attend_tail
from dspark.verifier.device.transfer import Array, Transfer
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


def tails_by_length(batch: ForwardBatch, transfer: Transfer) -> tuple[TailRows, ...]:
    """All rows grouped by the length of their tail, 0 included."""
    lengths = np.unique(batch.tail_lens).tolist()
    arrays: list[Array] = []
    for length in lengths:
        rows = np.flatnonzero(batch.tail_lens == length)
        index = batch.tail_starts[rows][:, None] + np.arange(length, dtype=np.int64)
        arrays += [rows, batch.tail_slots[index].astype(np.int64)]
    tensors = transfer.to_device(arrays)
    return tuple(
        TailRows(length, *pair)
        for length, pair in zip(lengths, zip(tensors[::2], tensors[1::2], strict=True), strict=True)
    )


class FlashAttention:
    """Prefixes by ``flash_attn_with_kvcache``, tails in torch. Imports flash-attn when made.

    The merge rounds differently from one pass over the whole path, so tree rows are not bitwise
    equal to plain ones.
    """

    def __init__(self, transfer: Transfer) -> None:
        from flash_attn import flash_attn_with_kvcache

        self._attend_prefix = flash_attn_with_kvcache
        self._transfer = transfer

    def plan(self, batch: ForwardBatch) -> FlashPlan:
        slots, table, lens = self._transfer.to_device(
            [
                batch.slot_mapping.astype(np.int64),
                batch.block_tables[batch.sequence_ids],
                batch.prefix_lens,
            ]
        )
        return FlashPlan(slots, table, lens, tails_by_length(batch, self._transfer))

    def static_plan(self, batch: ForwardBatch, kv_cache: KvCache, max_blocks: int) -> FlashPlan:
        """A plan for rows without tails."""
        wide = np.zeros((len(batch.block_tables), max_blocks), dtype=np.int32)
        wide[:, : batch.block_tables.shape[1]] = batch.block_tables
        return self.plan(replace(batch, block_tables=wide))

    def refill(self, plan: FlashPlan, batch: ForwardBatch, kv_cache: KvCache) -> bool:
        width = batch.block_tables.shape[1]
        if batch.tail_lens.any() or width > plan.block_table.shape[1]:
            return False
        new = self.plan(batch)
        plan.slot_mapping.copy_(new.slot_mapping)
        plan.block_table[:, :width].copy_(new.block_table)
        plan.prefix_lens.copy_(new.prefix_lens)
        return True

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
