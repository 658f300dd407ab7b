"""Attention in plain torch: the reference, and the way on devices without a better one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.slot_lists import SlotLists
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache

SPLIT_SIZE = 64
_SLICE_ELEMENTS = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TorchPlan:
    """``slot_mapping`` [rows] and every row's slots on the device of the KV pool."""

    slot_mapping: torch.Tensor
    lists: SlotLists


class TorchAttention:
    """Gathers each row's K/V and reduces them in splits of 64 positions, combined in order.

    A split's size and the order never depend on the batch, so neither do a row's bits. Every
    product is a multiplication and a sum over a fixed-size axis: matrix kernels choose their
    blocking by the number of rows.
    """

    def plan(self, batch: ForwardBatch) -> TorchPlan:
        return TorchPlan(torch.from_numpy(batch.slot_mapping).long(), SlotLists(batch))

    def attend(
        self,
        plan: TorchPlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        kv_cache.write(layer.index, plan.slot_mapping.to(kv_cache.device), key, value)
        keys, values = kv_cache.layer(layer.index)
        out = torch.empty_like(query)
        row_elements = plan.lists.max_len * key.shape[1] * key.shape[2]
        step = max(1, _SLICE_ELEMENTS // (row_elements * (query.shape[1] // key.shape[1])))
        for first in range(0, query.shape[0], step):
            rows = range(first, min(first + step, query.shape[0]))
            slots, lens = plan.lists.padded(rows, multiple=SPLIT_SIZE)
            slots, lens = slots.to(keys.device), lens.to(keys.device)
            part = _attend_rows(layer, query[rows.start : rows.stop], keys, values, slots, lens)
            out[rows.start : rows.stop] = part.to(query.dtype)
        return out


def _attend_rows(
    layer: AttentionLayer,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    lens: torch.Tensor,
) -> torch.Tensor:
    """Attention of query [rows, heads, dim] over slots [rows, splits * 64]; float32 result."""
    num_rows, num_heads, dim = query.shape
    num_kv_heads = keys.shape[1]
    grouped = query.float().view(num_rows, num_kv_heads, -1, 1, dim)
    positions = torch.arange(slots.shape[1], device=slots.device)
    seen = positions < lens[:, None]
    if layer.sliding_window:
        seen &= positions >= (lens - layer.sliding_window)[:, None]
    top = grouped.new_full((*grouped.shape[:3], 1), -torch.inf)
    total = torch.zeros_like(top)
    out = torch.zeros_like(grouped[:, :, :, 0])
    for split in range(0, slots.shape[1], SPLIT_SIZE):
        part = slice(split, split + SPLIT_SIZE)
        # [rows, kv_heads, 1, 64, dim]
        k = keys[slots[:, part]].float().transpose(1, 2).unsqueeze(2)
        v = values[slots[:, part]].float().transpose(1, 2).unsqueeze(2)
        mask = seen[:, None, None, part]
        scores = (grouped * k).sum(-1) * layer.scaling
        if layer.soft_cap:
            scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
        scores = scores.masked_fill(~mask, -torch.inf)
        # A split that a row does not see leaves its sums as they are, to the bit.
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        alive = new_top > -torch.inf
        weights = torch.where(alive & mask, torch.exp(scores - new_top), 0.0)
        keep = torch.where(top > -torch.inf, torch.exp(top - new_top), 0.0)
        total = total * keep + weights.sum(-1, keepdim=True)
        v = v.masked_fill(~mask.unsqueeze(-1), 0.0)
        out = out * keep + (weights.unsqueeze(-1) * v).sum(-2)
        top = new_top
    return (out / total).reshape(num_rows, num_heads, dim)
