"""The bytes of a block are the same blocks again, in any pool of the same layout."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.kv.kv_cache import KvCache


def cache(dtype: torch.dtype, num_blocks: int = 6) -> KvCache:
    return KvCache(
        num_layers=3,
        num_blocks=num_blocks,
        block_size=4,
        num_kv_heads=2,
        head_dim=8,
        dtype=dtype,
        num_scratch_blocks=1,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_blocks_are_read_and_written_bit_for_bit(dtype: torch.dtype) -> None:
    origin, heir = cache(dtype), cache(dtype, num_blocks=9)
    origin.tensor.copy_(torch.randn(origin.tensor.shape))
    heir.tensor.zero_()
    data = origin.read_blocks([4, 1])
    assert origin.layout == heir.layout
    assert len(data) == 2 * origin.layout.block_bytes
    heir.write_blocks([2, 7], data)
    assert torch.equal(heir.tensor[:, :, [2, 7]], origin.tensor[:, :, [4, 1]])
    heir.tensor[:, :, [2, 7]] = 0
    assert not heir.tensor.any()


def test_a_block_can_be_read_alone() -> None:
    origin = cache(torch.bfloat16)
    origin.tensor.copy_(torch.randn(origin.tensor.shape))
    size = origin.layout.block_bytes
    assert origin.read_blocks([4, 1])[size:] == origin.read_blocks([1])
