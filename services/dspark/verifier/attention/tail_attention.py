"""Attention of tree rows over their own paths: short lists of scattered slots."""

from __future__ import annotations

import torch

from dspark.verifier.attention.backend import AttentionLayer


def attend_tail(
    layer: AttentionLayer,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    lens: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [rows, heads, dim] and LSE [rows, heads] in float32.

    ``query`` is [rows, heads, dim], ``keys`` and ``values`` [num_slots, kv_heads, dim], ``slots``
    [rows, width] (padded with valid slots) and ``lens`` [rows], all above 0. A path's last slot is
    the row's own, so the sliding window ends there.
    """
    num_rows, num_heads, dim = query.shape
    grouped = query.float().view(num_rows, keys.shape[1], -1, dim)
    k = keys[slots].float().transpose(1, 2)
    v = values[slots].float().transpose(1, 2)
    scores = torch.einsum("rkgd,rksd->rkgs", grouped, k) * layer.scaling
    if layer.soft_cap:
        scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
    positions = torch.arange(slots.shape[1], device=slots.device)
    seen = positions < lens[:, None]
    if layer.sliding_window:
        seen &= positions >= (lens - layer.sliding_window)[:, None]
    scores = scores.masked_fill(~seen[:, None, None], -torch.inf)
    lse = torch.logsumexp(scores, dim=-1)
    v = v.masked_fill(~seen[:, None, :, None], 0.0)
    out = torch.einsum("rkgs,rksd->rkgd", torch.exp(scores - lse[..., None]), v)
    return out.reshape(num_rows, num_heads, dim), lse.reshape(num_rows, num_heads)
