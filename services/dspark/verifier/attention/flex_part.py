"""One slice of a pass on the device, as FlexAttention's kernel wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dspark.verifier.attention.flex_kernel import BlockLists, MaskMod
from dspark.verifier.attention.flex_layout import GROUP_ROWS, FlexLayout, PoolShape
from dspark.verifier.device.transfer import Array, Transfer


@dataclass(frozen=True, slots=True)
class PartShape:
    """Sizes that the arrays of a part are padded to."""

    pool: PoolShape
    num_groups: int
    num_copied_slots: int
    max_blocks: int

    @classmethod
    def of_layout(cls, layout: FlexLayout, pool: PoolShape) -> PartShape:
        """Sizes that fit; powers of two, so that few of them occur."""
        longest = max(len(group.shared) + len(group.copies) for group in layout.groups)
        # One group alone would be a case of its own to the compiler.
        num_groups = _power_of_two(max(2, layout.num_groups))
        return cls(pool, num_groups, len(layout.sources), _power_of_two(max(2, longest)))

    @classmethod
    def of_rows(cls, num_rows: int, pool: PoolShape, max_blocks: int) -> PartShape:
        """Sizes for every pass of so many rows, in which a path needs two copied blocks or less."""
        copies = min(2 * num_rows, pool.num_copies)
        return cls(pool, max(2, num_rows), copies * pool.block_size, max_blocks + copies)


@dataclass(frozen=True, slots=True)
class WindowView:
    """What the rows see through one sliding window; ``starts`` [places] is the first position."""

    lists: BlockLists
    starts: torch.Tensor
    mask: MaskMod


class FlexPart:
    """The tensors of a FlexLayout. ``refill`` keeps each tensor where it is."""

    def __init__(self, layout: FlexLayout, shape: PartShape, transfer: Transfer) -> None:
        """Raises ValueError for a layout larger than the shape."""
        if not self._fits(layout, shape):
            raise ValueError("the pass is larger than the plan that is made of it")
        self.shape = shape
        self.rows = layout.rows
        self._layout = layout
        self._transfer = transfer
        self._views: dict[int, WindowView] = {}
        self._places, self._lens, *rest = transfer.to_device(_arrays(layout, shape))
        self._shared_lens, self._block_index, self._owners, *copies = rest
        self._sources, self._destinations = copies

    @staticmethod
    def _fits(layout: FlexLayout, shape: PartShape) -> bool:
        longest = max(len(group.shared) + len(group.copies) for group in layout.groups)
        return (
            layout.num_groups <= shape.num_groups
            and len(layout.sources) <= shape.num_copied_slots
            and longest <= shape.max_blocks
        )

    def refill(self, layout: FlexLayout) -> bool:
        """Stand for another layout of as many rows; False if it is larger than the shape."""
        if not self._fits(layout, self.shape):
            return False
        self._layout = layout
        arrays = _arrays(layout, self.shape)
        targets = [self._places, self._lens, self._shared_lens, self._block_index, self._owners]
        targets += [self._sources, self._destinations]
        # What lies past the end of a list is never read.
        width = min(self.shape.max_blocks, PartShape.of_layout(layout, self.shape.pool).max_blocks)
        for window, view in self._views.items():
            arrays += _list_arrays(layout, replace(self.shape, max_blocks=width), window)
            targets += [view.lists.counts, view.lists.blocks[:, :width], view.starts]
        for target, source in zip(targets, self._transfer.to_device(arrays), strict=True):
            target.copy_(source)
        return True

    def copy_paths(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Bring the paths of tree rows to the scratch blocks, one layer's K/V."""
        if len(self._sources):
            keys[self._destinations] = keys[self._sources]
            values[self._destinations] = values[self._sources]

    def grouped(self, query: torch.Tensor) -> torch.Tensor:
        """Query [rows, heads, dim] as [groups, heads, 16, dim], with zeros between."""
        padded = query.new_zeros(self.shape.num_groups * GROUP_ROWS, *query.shape[1:])
        padded[self._places] = query
        return padded.view(-1, GROUP_ROWS, *query.shape[1:]).transpose(1, 2)

    def flat(self, out: torch.Tensor) -> torch.Tensor:
        """What ``grouped`` does, undone."""
        return out.transpose(1, 2).reshape(-1, out.shape[1], out.shape[3])[self._places]

    def view(self, window: int) -> WindowView:
        """``window`` counts the row itself; 0 means none."""
        if window not in self._views:
            arrays = _list_arrays(self._layout, self.shape, window)
            counts, blocks, starts = self._transfer.to_device(arrays)
            lists = BlockLists(counts, blocks, self.shape.pool.block_size)
            self._views[window] = WindowView(lists, starts, self._mask(starts))
        return self._views[window]

    def _mask(self, starts: torch.Tensor) -> MaskMod:
        lens, shared_lens = self._lens, self._shared_lens
        block_index, owners = self._block_index, self._owners
        block_size = self.shape.pool.block_size

        def mask(
            group: torch.Tensor, head: torch.Tensor, query: torch.Tensor, slot: torch.Tensor
        ) -> torch.Tensor:
            place = group * GROUP_ROWS + query
            block = slot // block_size
            position = block_index[block] * block_size + slot % block_size
            owner = owners[block]
            in_shared = (owner < 0) & (position < shared_lens[place])
            in_copy = (owner == place) & (position < lens[place])
            return (in_shared | in_copy) & (position >= starts[place])

        return mask


def _arrays(layout: FlexLayout, shape: PartShape) -> list[Array]:
    """places, lens, shared_lens, block_index, owners, sources, destinations, padded."""
    num_places = shape.num_groups * GROUP_ROWS
    # What is copied only to fill the array goes from the last scratch slot to itself.
    spare = shape.pool.num_all_blocks * shape.pool.block_size - 1
    return [
        layout.places,
        _padded(layout.lens, num_places, 0),
        _padded(layout.shared_lens, num_places, 0),
        layout.block_index,
        layout.owners,
        _padded(layout.sources, shape.num_copied_slots, spare),
        _padded(layout.destinations, shape.num_copied_slots, spare),
    ]


def _list_arrays(layout: FlexLayout, shape: PartShape, window: int) -> list[Array]:
    """Counts, block lists and starts of one window, padded."""
    counts = np.zeros(shape.num_groups, dtype=np.int32)
    blocks = np.zeros((shape.num_groups, shape.max_blocks), dtype=np.int32)
    firsts = layout.first_blocks(window, shape.pool.block_size)
    for index, (group, first) in enumerate(zip(layout.groups, firsts, strict=True)):
        listed = group.blocks(first)
        counts[index] = len(listed)
        blocks[index, : len(listed)] = listed
    starts = np.maximum(layout.lens - window, 0) if window else np.zeros_like(layout.lens)
    return [counts, blocks, _padded(starts, shape.num_groups * GROUP_ROWS, 0)]


def _padded(array: Array, length: int, value: int) -> Array:
    padded = np.full(length, value, dtype=array.dtype)
    padded[: len(array)] = array
    return padded


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
