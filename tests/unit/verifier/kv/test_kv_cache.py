"""The KV pool's memory."""

from __future__ import annotations

import numpy as np
import torch

from dspark.verifier.kv.kv_cache import KvCache


def numbered_cache() -> KvCache:
    cache = KvCache(
        num_layers=2,
        num_blocks=3,
        block_size=4,
        num_kv_heads=2,
        head_dim=3,
        dtype=torch.float32,
    )
    cache.tensor.copy_(torch.arange(cache.tensor.numel()).view(cache.tensor.shape))
    return cache


def int32(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def test_a_slot_is_block_times_size_plus_offset() -> None:
    cache = numbered_cache()
    keys, values = cache.layer(1)
    assert torch.equal(keys[2 * 4 + 3], cache.tensor[1, 0, 2, 3])
    assert torch.equal(values[5], cache.tensor[1, 1, 1, 1])
    assert cache.num_slots == 12


def test_move_copies_all_layers() -> None:
    cache = numbered_cache()
    before = cache.slots.clone()
    cache.move(int32(7, 9), int32(2, 3))
    assert torch.equal(cache.slots[:, :, [2, 3]], before[:, :, [7, 9]])
    untouched = [0, 1, 4, 5, 6, 7, 8, 9, 10, 11]
    assert torch.equal(cache.slots[:, :, untouched], before[:, :, untouched])


def test_move_reads_before_it_writes() -> None:
    cache = numbered_cache()
    before = cache.slots.clone()
    cache.move(int32(1, 2, 3), int32(0, 1, 2))
    assert torch.equal(cache.slots[:, :, [0, 1, 2]], before[:, :, [1, 2, 3]])
    cache = numbered_cache()
    cache.move(int32(0, 1, 2), int32(1, 2, 3))
    assert torch.equal(cache.slots[:, :, [1, 2, 3]], before[:, :, [0, 1, 2]])


def test_move_of_nothing() -> None:
    cache = numbered_cache()
    before = cache.tensor.clone()
    cache.move(int32(), int32())
    assert torch.equal(cache.tensor, before)


def test_write_converts_to_the_pools_dtype() -> None:
    cache = KvCache(
        num_layers=1,
        num_blocks=1,
        block_size=4,
        num_kv_heads=1,
        head_dim=2,
        dtype=torch.bfloat16,
    )
    key, value = torch.randn(2, 1, 2), torch.randn(2, 1, 2)
    cache.write(0, torch.tensor([3, 0]), key, value)
    keys, values = cache.layer(0)
    assert torch.equal(keys[[3, 0]], key.bfloat16())
    assert torch.equal(values[[3, 0]], value.bfloat16())
