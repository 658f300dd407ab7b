"""FlexAttention on a device: against plain torch, and bit for bit in every layout of a pass."""

from __future__ import annotations

import random

import pytest
import torch

from dspark.verifier.attention.backend import AttentionBackend, AttentionLayer
from dspark.verifier.attention.registry import BACKENDS
from dspark.verifier.kv.kv_cache import KvCache
from harness.paged_rows import PagedSequence, Part, attend

pytestmark = pytest.mark.gpu
HEADS, KV_HEADS, DIM, NUM_BLOCKS = 9, 3, 64, 64
LAYERS = [
    AttentionLayer(0, 0.125),
    AttentionLayer(0, 0.125, sliding_window=40),
    AttentionLayer(0, 0.125, soft_cap=20.0),
]
# A chain of four, a branch at its second node, and another child of the root.
PARENTS = (0, 1, 2, 3, 2, 5, 0)


def pool(device: str, block_size: int, dtype: torch.dtype) -> KvCache:
    return KvCache(
        num_layers=1,
        num_blocks=NUM_BLOCKS,
        block_size=block_size,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        dtype=dtype,
        num_scratch_blocks=32,
        device=device,
    )


def sequence(
    device: str, length: int, block_size: int, *, first: int, parents: tuple[int, ...] = ()
) -> PagedSequence:
    generator = torch.Generator().manual_seed(first)
    rows = length + len(parents)
    q = torch.randn(rows, HEADS, DIM, generator=generator).to(device, torch.bfloat16)
    k, v = torch.randn(2, rows, KV_HEADS, DIM, generator=generator).to(device, torch.bfloat16)
    order = random.Random(7).sample(range(NUM_BLOCKS), NUM_BLOCKS)
    blocks = order[first : first + -(-rows // block_size)]
    return PagedSequence(q, k, v, length, blocks, block_size, parents)


@pytest.fixture
def flex(device: str) -> AttentionBackend:
    return BACKENDS["flex"](torch.device(device), 1)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("block_size", [16, 64])
def test_agrees_with_plain_torch(
    device: str, flex: AttentionBackend, layer: AttentionLayer, block_size: int
) -> None:
    known = [sequence(device, 60, block_size, first=10 * i, parents=PARENTS) for i in range(4)]
    prefill = sequence(device, 100, block_size, first=50)
    results = []
    for backend in (flex, BACKENDS["torch"](torch.device(device), 1)):
        cache = pool(device, block_size, torch.bfloat16)
        for each in known:
            attend(backend, layer, cache, [Part(each, 0, 59)])
        parts = [Part(each, 59, 60, tree=True) for each in known]
        results.append(attend(backend, layer, cache, [*parts, Part(prefill, 0, 100)]))
    torch.testing.assert_close(*results, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_in_every_pass(
    device: str, flex: AttentionBackend, layer: AttentionLayer, dtype: torch.dtype
) -> None:
    if device == "cpu":
        pytest.skip("unfused attention on the CPU sums in another order for each shape")
    whole = sequence(device, 75, 16, first=0)
    expected = attend(flex, layer, pool(device, 16, dtype), [Part(whole, 0, 75)])
    committed = 70
    # The last tokens again as nodes, each after a sibling that is wrong.
    rows = [committed + node for node in range(5) for _ in range(2)]
    parents = [0, 0, *(2 * node for node in range(1, 5) for _ in range(2))]
    q, k, v = (getattr(whole, name)[[*range(committed), *rows]] for name in "qkv")
    k[committed::2] += 1.0
    tree = PagedSequence(q, k, v, committed, [9, 33, 4, 17, 0], 16, parents)
    others = [sequence(device, 30, 16, first=20 + 4 * i) for i in range(6)]
    cache = pool(device, 16, dtype)
    for start, end in ((0, 1), (1, 40), (40, 69)):
        out = attend(flex, layer, cache, [Part(tree, start, end)])
        assert torch.equal(out, expected[start:end])
    parts = [Part(other, 0, 5 + index) for index, other in enumerate(others)]
    out = attend(flex, layer, cache, [*parts, Part(tree, 69, 70, tree=True)])
    nodes = out[-len(rows) :]
    assert torch.equal(out[-len(rows) - 1], expected[69])
    assert torch.equal(nodes[1::2], expected[committed:])
