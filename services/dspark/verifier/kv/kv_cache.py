"""The memory of the KV pool: one tensor for all layers."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import torch

from dspark.kv_blocks import KvLayout
from dspark.verifier.device.transfer import transfer_for
from dspark.verifier.forward_batch import IntArray


class KvCache:
    """K and V of every slot: [layers, 2, num_blocks, block_size, kv_heads, head_dim].

    The tensor is not initialised, so blocks that were never written cost no resident memory. A
    slot is ``block * block_size + offset``. Scratch blocks follow the others: they belong to the
    model's passes and hold nothing from one to the next; the last one takes what nobody reads.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        num_scratch_blocks: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.num_blocks = num_blocks
        self.num_scratch_blocks = num_scratch_blocks
        self.block_size = block_size
        num_all = num_blocks + num_scratch_blocks
        shape = (num_layers, 2, num_all, block_size, num_kv_heads, head_dim)
        self.tensor = torch.empty(shape, dtype=dtype, device=device)
        self._transfer = transfer_for(self.tensor.device)
        # Slots that sequences may have.
        self.num_slots = num_blocks * block_size
        # [layers, 2, slots, kv_heads, head_dim], the same memory
        self.slots = self.tensor.view(num_layers, 2, num_all * block_size, num_kv_heads, head_dim)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer, each [slots, kv_heads, head_dim]."""
        return self.slots[index, 0], self.slots[index, 1]

    @property
    def layout(self) -> KvLayout:
        """The form of a block's bytes: [num_layers, 2, block_size, kv_heads, head_dim]."""
        num_layers, _, _, block_size, num_kv_heads, head_dim = self.tensor.shape
        num_elements = num_layers * 2 * block_size * num_kv_heads * head_dim
        return KvLayout(
            dtype=str(self.dtype).removeprefix("torch."),
            num_layers=num_layers,
            block_size=block_size,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            block_bytes=num_elements * self.dtype.itemsize,
        )

    def read_blocks(self, blocks: Seq[int]) -> bytes:
        """The bytes of the blocks, one after the other."""
        # [num_blocks, num_layers, 2, block_size, kv_heads, head_dim]
        found = self.tensor[:, :, list(blocks)].movedim(2, 0).contiguous().cpu()
        return found.view(-1).view(torch.uint8).numpy().tobytes()

    def write_blocks(self, blocks: Seq[int], data: bytes) -> None:
        """Store what ``read_blocks`` gave for as many blocks."""
        num_layers, _, _, *block_shape = self.tensor.shape
        given = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(self.dtype)
        given = given.view(len(blocks), num_layers, 2, *block_shape)
        self.tensor[:, :, list(blocks)] = given.movedim(0, 2).to(self.device)

    def clear(self, num_slots: int) -> None:
        """Fill the first slots of all layers with zeros."""
        self.slots[:, :, :num_slots].zero_()

    def write(
        self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Store rows of key and value [rows, kv_heads, head_dim] at ``slots`` [rows]."""
        keys, values = self.layer(layer)
        keys[slots] = key.to(keys.dtype)
        values[slots] = value.to(values.dtype)

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy all layers' K/V from source to destination slots; reads happen before writes."""
        if len(sources) == 0:
            return
        read, write = self._transfer.to_device(
            [sources.astype(np.int64), destinations.astype(np.int64)]
        )
        self.slots[:, :, write] = self.slots[:, :, read]
