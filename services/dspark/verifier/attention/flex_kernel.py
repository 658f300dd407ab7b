"""How FlexAttention runs: compiled on a GPU, unfused elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from dspark.verifier.attention.flex_layout import GROUP_ROWS

_MAX_TILE = 64
MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class BlockLists:
    """The KV blocks that each group reads, in order: ``blocks`` [groups, width], ``counts``
    [groups], both int32.
    """

    counts: torch.Tensor
    blocks: torch.Tensor
    block_size: int


class FlexKernel(Protocol):
    """Attention of groups of 16 queries over lists of KV blocks."""

    def __call__(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        lists: BlockLists,
        mask: MaskMod,
        *,
        scale: float,
        soft_cap: float,
    ) -> torch.Tensor:
        """Query is [groups, heads, 16, dim], keys and values [num_slots, kv_heads, dim].

        The result has the query's shape. Values of all slots of listed blocks must be finite.
        """
        ...


def tile_width(block_size: int) -> int:
    """Positions that the fused kernel reads at a time: a power of two that divides a block."""
    return min(block_size & -block_size, _MAX_TILE)


def compiled_kernel() -> FlexKernel:
    """The Triton kernel that torch.compile makes of a mask, one program a group and head."""
    from torch.nn.attention.flex_attention import flex_attention

    return partial(_call, torch.compile(flex_attention))


def unfused_kernel() -> FlexKernel:
    """Plain torch operations over all listed blocks: slow, where there is no fused kernel.

    Every group sees the blocks of all, so being listed is part of its mask.
    """
    from torch.nn.attention.flex_attention import and_masks, flex_attention

    def run(
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        lists: BlockLists,
        mask: MaskMod,
        *,
        scale: float,
        soft_cap: float,
    ) -> torch.Tensor:
        size = lists.block_size
        used, own = _used_blocks(lists)
        slots = (used[:, None] * size + torch.arange(size, device=used.device)).flatten()

        def moved(
            group: torch.Tensor, head: torch.Tensor, query: torch.Tensor, index: torch.Tensor
        ) -> torch.Tensor:
            return mask(group, head, query, slots[index])

        keys, values = keys[slots], values[slots]
        listed = and_masks(_is_listed(own, len(slots)), moved)
        # Stops flex_attention from compiling itself anew for every shape, and from saying so.
        with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="flex_attention called without")
            return _call(
                flex_attention,
                query,
                keys,
                values,
                own,
                listed,
                scale=scale,
                soft_cap=soft_cap,
            )

    return run


def _used_blocks(lists: BlockLists) -> tuple[torch.Tensor, BlockLists]:
    """[used] the blocks that any group reads, and the lists as indexes into them."""
    columns = torch.arange(lists.blocks.shape[1], device=lists.blocks.device)
    is_used = columns < lists.counts[:, None]
    used = torch.unique(lists.blocks[is_used])
    blocks = torch.searchsorted(used, torch.where(is_used, lists.blocks, used[0]))
    return used.long(), BlockLists(lists.counts, blocks.int(), lists.block_size)


def _call(
    flex_attention: Callable[..., Any],
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lists: BlockLists,
    mask: MaskMod,
    *,
    scale: float,
    soft_cap: float,
) -> torch.Tensor:
    from torch.nn.attention.flex_attention import BlockMask

    block_mask = BlockMask.from_kv_blocks(
        lists.counts[:, None, None],
        lists.blocks[:, None, None],
        BLOCK_SIZE=(GROUP_ROWS, lists.block_size),
        mask_mod=mask,
        seq_lengths=(GROUP_ROWS, len(keys)),
        compute_q_blocks=False,
    )
    out: torch.Tensor = flex_attention(
        query,
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        score_mod=_capped(soft_cap) if soft_cap else None,
        block_mask=block_mask,
        scale=scale,
        enable_gqa=query.shape[1] != keys.shape[1],
        kernel_options={
            # The kernel for short queries splits K/V by the size of the batch.
            "FORCE_USE_FLEX_ATTENTION": True,
            "BLOCK_M": GROUP_ROWS,
            "BLOCK_N": tile_width(lists.block_size),
            "num_warps": 4,
            "num_stages": 2,
        },
    )
    return out


def _capped(
    cap: float,
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    def score_mod(
        score: torch.Tensor,
        batch: torch.Tensor,
        head: torch.Tensor,
        query: torch.Tensor,
        slot: torch.Tensor,
    ) -> torch.Tensor:
        return cap * torch.tanh(score / cap)

    return score_mod


def _is_listed(lists: BlockLists, num_slots: int) -> MaskMod:
    num_groups, width = lists.blocks.shape
    used = torch.arange(width, device=lists.blocks.device) < lists.counts[:, None]
    # One column more, for what lies past the end of a list.
    num_blocks = num_slots // lists.block_size
    columns = torch.where(used, lists.blocks, num_blocks).long()
    listed = torch.zeros(num_groups, num_blocks + 1, dtype=torch.bool, device=used.device)
    listed.scatter_(1, columns, True)

    def mask(
        group: torch.Tensor, head: torch.Tensor, query: torch.Tensor, slot: torch.Tensor
    ) -> torch.Tensor:
        return listed[group, slot // lists.block_size]

    return mask
