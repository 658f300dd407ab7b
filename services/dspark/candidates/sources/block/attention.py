"""Attention of a block's slots over a context and over the slots before them.

B is the number of sequences, A that of blocks of each, S that of slots of a block, T that of places
of the context, D the size of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROTARY_BASE = 10_000.0


@dataclass(frozen=True, slots=True)
class KeyValues:
    """``keys``, rotated, and ``values``, both [..., num_kv_heads, D]."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True)
class Rotation:
    """``cos`` and ``sin`` [..., 1, D] of positions (RoFormer, Su et al. 2021, arXiv:2104.09864)."""

    cos: Tensor
    sin: Tensor

    @staticmethod
    def of(positions: Tensor, size: int) -> Rotation:
        """Of integer ``positions`` [...] for heads of ``size``."""
        exponents = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device) / size
        angles = positions[..., None].float() * ROTARY_BASE**-exponents
        both = torch.cat((angles, angles), dim=-1).unsqueeze(-2)
        return Rotation(both.cos(), both.sin())

    def __call__(self, vectors: Tensor) -> Tensor:
        """``vectors`` [..., num_heads, D], turned."""
        first, second = vectors.chunk(2, dim=-1)
        return vectors * self.cos + torch.cat((-second, first), dim=-1) * self.sin


def attend(queries: Tensor, context: KeyValues, block: KeyValues, visible: Tensor) -> Tensor:
    """[B, A, S, num_heads * D] from ``queries`` [B, A, S, num_heads, D].

    ``context`` is [B, T, ...], ``block`` [B, A, S, ...]. A slot sees the places of the context that
    are ``visible`` [B, A, T] to its block, and of its block itself and the slots before it.
    """
    num_texts, num_blocks, num_slots, num_heads, size = queries.shape
    num_places, num_kv = context.keys.shape[1:3]
    groups = num_heads // num_kv
    grouped = queries.view(num_texts, num_blocks, num_slots, num_kv, groups, size)
    grouped = (grouped * size**-0.5).permute(0, 3, 1, 4, 2, 5)
    shape = grouped.shape[:-1]
    rows = grouped.reshape(num_texts, num_kv, -1, size)
    far = (rows @ context.keys.permute(0, 2, 3, 1)).view(*shape, num_places)
    far = far.masked_fill(~visible[:, None, :, None, None], -torch.inf)
    grouped = rows.view(num_texts, num_kv, num_blocks, -1, size)
    near = (grouped @ block.keys.permute(0, 3, 1, 4, 2)).view(*shape, num_slots)
    slots = torch.arange(num_slots, device=queries.device)
    near = near.masked_fill(slots > slots[:, None], -torch.inf)
    weights = torch.cat((far, near), dim=-1).softmax(dim=-1)
    mixed = weights.view(*rows.shape[:3], -1)[..., :num_places] @ context.values.transpose(1, 2)
    own = weights.view(*grouped.shape[:4], -1)[..., num_places:]
    mixed = mixed.view(grouped.shape) + own @ block.values.permute(0, 3, 1, 2, 4)
    return mixed.view(*shape, size).permute(0, 2, 4, 1, 3, 5).reshape(*queries.shape[:3], -1)
