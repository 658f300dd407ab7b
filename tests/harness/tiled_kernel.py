"""FlexAttention's fused kernel in plain torch: the same tiles in the same order, lists included.

Products have one shape whatever the pass, so equal inputs give equal bits.
"""

from __future__ import annotations

import torch

from dspark.verifier.attention.flex_kernel import BlockLists, MaskMod, tile_width


def tiled_kernel(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lists: BlockLists,
    mask: MaskMod,
    *,
    scale: float,
    soft_cap: float,
) -> torch.Tensor:
    out = torch.empty_like(query)
    for group in range(len(query)):
        blocks = lists.blocks[group, : int(lists.counts[group])]
        out[group] = _attend(
            query[group], keys, values, blocks, group, lists, mask, scale, soft_cap
        )
    return out


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    blocks: torch.Tensor,
    group: int,
    lists: BlockLists,
    mask: MaskMod,
    scale: float,
    soft_cap: float,
) -> torch.Tensor:
    """Online softmax of query [heads, 16, dim] over tiles of the listed blocks."""
    num_heads, num_rows, dim = query.shape
    share = num_heads // keys.shape[1]
    top = torch.full((num_heads, num_rows, 1), -torch.inf)
    total, out = torch.zeros_like(top), torch.zeros(num_heads, num_rows, dim)
    width = tile_width(lists.block_size)
    for block in blocks.tolist():
        for first in range(block * lists.block_size, (block + 1) * lists.block_size, width):
            slots = torch.arange(first, first + width)
            k = keys[slots].float().transpose(0, 1).repeat_interleave(share, 0)
            v = values[slots].float().transpose(0, 1).repeat_interleave(share, 0)
            scores = query.float() @ k.transpose(1, 2) * scale
            if soft_cap:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            index = torch.tensor(group)
            seen = mask(index, torch.tensor(0), torch.arange(num_rows)[:, None], slots[None])
            scores = torch.where(seen, scores, -torch.inf)
            new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
            safe = torch.where(new_top == -torch.inf, 0.0, new_top)
            weights, keep = torch.exp(scores - safe), torch.exp(top - safe)
            total = total * keep + weights.sum(-1, keepdim=True)
            out = out * keep + weights @ v
            top = new_top
    return (out / torch.where(total == 0.0, 1.0, total)).to(query.dtype)
