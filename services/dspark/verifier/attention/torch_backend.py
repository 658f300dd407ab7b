"""Attention in plain torch: the reference, and the way on devices without a better one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.slot_lists import SlotLists
from dspark.verifier.device.transfer import Transfer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache

SPLIT_SIZE = 64
_SLICE_ELEMENTS = 16 * 1024 * 1024


@dataclass(slots=True)
class TorchPlan:
    """``slot_mapping`` [rows], and slices of rows with their padded slots, made by first use."""

    slot_mapping: torch.Tensor
    lists: SlotLists
    slices: list[tuple[range, torch.Tensor, torch.Tensor]] = field(default_factory=list)


class TorchAttention:
    """Gathers each row's K/V and reduces them in splits of 64 positions, combined in order.

    A split's size and the order never depend on the batch, so neither do a row's bits. Every
    product is a multiplication and a sum over a fixed-size axis: matrix kernels choose their
    blocking by the number of rows.
    """

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    def plan(self, batch: ForwardBatch) -> TorchPlan:
        (slot_mapping,) = self._transfer.to_device([batch.slot_mapping.astype(np.int64)])
        return TorchPlan(slot_mapping, SlotLists(batch))

    def attend(
        self,
        plan: TorchPlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        kv_cache.write(layer.index, plan.slot_mapping, key, value)
        keys, values = kv_cache.layer(layer.index)
        out = torch.empty_like(query)
        if not plan.slices:
            plan.slices = self._slices(plan.lists, query.shape, key.shape[1])
        for rows, slots, lens in plan.slices:
            part = _attend_rows(layer, query[rows.start : rows.stop], keys, values, slots, lens)
            out[rows.start : rows.stop] = part.to(query.dtype)
        return out

    def _slices(
        self, lists: SlotLists, shape: torch.Size, num_kv_heads: int
    ) -> list[tuple[range, torch.Tensor, torch.Tensor]]:
        """As many rows at a time as bounded memory allows; ``shape`` is [rows, heads, dim]."""
        num_rows, num_heads, dim = shape
        row_elements = lists.max_len * num_kv_heads * dim
        step = max(1, _SLICE_ELEMENTS // (row_elements * (num_heads // num_kv_heads)))
        slices = []
        for first in range(0, num_rows, step):
            rows = range(first, min(first + step, num_rows))
            slots, lens = self._transfer.to_device(lists.padded(rows, multiple=SPLIT_SIZE))
            slices.append((rows, slots, lens))
        return slices


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
