"""FlexAttention against dense attention, and bit for bit against itself in every layout."""

from __future__ import annotations

import random

import pytest
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.flex_backend import FlexAttention
from dspark.verifier.attention.flex_kernel import FlexKernel, unfused_kernel
from dspark.verifier.attention.torch_backend import TorchAttention
from dspark.verifier.device.transfer import HostTransfer
from dspark.verifier.kv.kv_cache import KvCache
from harness.paged_rows import PagedSequence, Part, attend
from harness.tiled_kernel import tiled_kernel

KV_HEADS, DIM, BLOCK_SIZE, NUM_BLOCKS, SCRATCH = 2, 16, 16, 40, 24
LAYERS = [
    AttentionLayer(0, 0.3),
    AttentionLayer(0, 0.3, sliding_window=5),
    AttentionLayer(0, 0.3, sliding_window=40),
    AttentionLayer(0, 0.3, soft_cap=2.0),
]
# A chain of four, a branch at its second node, and another child of the root.
PARENTS = (0, 1, 2, 3, 2, 5, 0)


def pool(
    *, dtype: torch.dtype = torch.float32, scratch: int = SCRATCH, block_size: int = BLOCK_SIZE
) -> KvCache:
    cache = KvCache(
        num_layers=1,
        num_blocks=NUM_BLOCKS,
        block_size=block_size,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        dtype=dtype,
        num_scratch_blocks=scratch,
    )
    # What lies in slots that no row sees must not matter.
    cache.tensor.fill_(torch.nan)
    return cache


def sequence(
    length: int, *, parents: tuple[int, ...] = (), seed: int = 0, group: int = 3, first: int = 0
) -> PagedSequence:
    """``first`` numbers its blocks within an order of all blocks that the seed does not change."""
    generator = torch.Generator().manual_seed(seed)
    rows = length + len(parents)
    q = torch.randn(rows, KV_HEADS * group, DIM, generator=generator)
    k, v = torch.randn(2, rows, KV_HEADS, DIM, generator=generator)
    order = random.Random(7).sample(range(NUM_BLOCKS), NUM_BLOCKS)
    blocks = order[first : first + -(-rows // BLOCK_SIZE)]
    return PagedSequence(q, k, v, length, blocks, BLOCK_SIZE, parents)


def flex(kernel: FlexKernel) -> FlexAttention:
    return FlexAttention(kernel, HostTransfer())


@pytest.fixture(params=["unfused", "tiled"])
def kernel(request: pytest.FixtureRequest) -> FlexKernel:
    return unfused_kernel() if request.param == "unfused" else tiled_kernel


def check(out: torch.Tensor, parts: list[Part], layer: AttentionLayer) -> None:
    expected = torch.stack(
        [
            part.sequence.dense(row, layer)
            for part in parts
            for row in part.sequence.rows(part.start, part.end, tree=part.tree)
        ]
    )
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_prefill_decode_and_trees_in_one_pass(kernel: FlexKernel, layer: AttentionLayer) -> None:
    decode, tree = sequence(50, seed=1), sequence(45, parents=PARENTS, seed=2, first=8)
    prefill = sequence(70, seed=3, first=16)
    cache, backend = pool(), flex(kernel)
    for known in (decode, tree):
        attend(backend, layer, cache, [Part(known, 0, known.num_tokens - 1)])
    attend(backend, layer, cache, [Part(prefill, 0, 30)])
    parts = [Part(decode, 49, 50), Part(tree, 44, 45, tree=True), Part(prefill, 30, 70)]
    out = attend(backend, layer, cache, parts)
    check(out, parts, layer)


@pytest.mark.parametrize("group", [1, 4, 7])
def test_grouped_heads(kernel: FlexKernel, group: int) -> None:
    parts = [Part(sequence(20, group=group), 0, 20)]
    check(attend(flex(kernel), LAYERS[0], pool(), parts), parts, LAYERS[0])


def test_agrees_with_the_torch_backend(kernel: FlexKernel) -> None:
    parts = [Part(sequence(47, parents=PARENTS), 0, 47, tree=True)]
    mine = attend(flex(kernel), LAYERS[2], pool(dtype=torch.bfloat16), parts)
    other = attend(TorchAttention(HostTransfer()), LAYERS[2], pool(dtype=torch.bfloat16), parts)
    # Queries are bfloat16 here too, as K and V are.
    torch.testing.assert_close(mine, other, rtol=0.05, atol=0.03)


def test_shared_prefix_blocks() -> None:
    first = sequence(40, seed=1)
    second = sequence(40, seed=2, first=10)
    second.blocks[:2] = first.blocks[:2]
    for name in "kv":
        getattr(second, name)[:32] = getattr(first, name)[:32]
    cache, backend = pool(), flex(tiled_kernel)
    attend(backend, LAYERS[0], cache, [Part(first, 0, 39)])
    attend(backend, LAYERS[0], cache, [Part(second, 32, 39)])
    parts = [Part(first, 39, 40), Part(second, 39, 40)]
    check(attend(backend, LAYERS[0], cache, parts), parts, LAYERS[0])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunks_and_trees_equal_one_pass_to_the_bit(
    layer: AttentionLayer, dtype: torch.dtype
) -> None:
    length, committed = 75, 62
    whole = sequence(length)
    expected = attend(flex(tiled_kernel), layer, pool(dtype=dtype), [Part(whole, 0, length)])
    # The same text as a tree: its nodes are the odd ones, each after a sibling that is wrong.
    nodes = range(length - committed)
    rows = [row for node in nodes for row in (committed + node, committed + node)]
    parents = [0, 0, *(2 * node for node in nodes if node for _ in range(2))]
    parts = {name: getattr(whole, name)[[*range(committed), *rows]] for name in "qkv"}
    for name in "kv":
        parts[name][committed::2] += 1.0
    tree = PagedSequence(
        **parts,
        num_tokens=committed,
        blocks=[33, 4, 17, 0, 9, 21],
        block_size=BLOCK_SIZE,
        parents=parents,
    )
    cache, backend = pool(dtype=dtype), flex(tiled_kernel)
    for start, end in ((0, 1), (1, 40), (40, committed - 1)):
        out = attend(backend, layer, cache, [Part(tree, start, end)])
        assert torch.equal(out, expected[start:end])
    out = attend(backend, layer, cache, [Part(tree, committed - 1, committed, tree=True)])
    assert torch.equal(out[0], expected[committed - 1])
    assert torch.equal(out[2::2], expected[committed:])


def test_rows_do_not_depend_on_their_neighbours() -> None:
    tree = sequence(45, parents=PARENTS)
    others = [sequence(33, parents=PARENTS, seed=s, first=4 * s) for s in range(2, 6)]
    cache, backend = pool(), flex(tiled_kernel)
    for known in (tree, *others):
        attend(backend, LAYERS[0], cache, [Part(known, 0, known.num_tokens - 1)])
    mine = Part(tree, 44, 45, tree=True)
    alone = attend(backend, LAYERS[0], cache, [mine])
    for before in (others[:1], others):
        neighbours = [Part(o, 32, 33, tree=True) for o in before]
        out = attend(backend, LAYERS[0], cache, [*neighbours, mine])
        assert torch.equal(out[-len(alone) :], alone)


@pytest.mark.parametrize("scratch", [3, 5, SCRATCH])
def test_few_scratch_blocks_make_a_pass_in_slices(scratch: int) -> None:
    tree = sequence(45, parents=PARENTS)
    outs = []
    for count in (scratch, SCRATCH):
        cache, backend = pool(scratch=count), flex(tiled_kernel)
        attend(backend, LAYERS[0], cache, [Part(tree, 0, 44)])
        outs.append(attend(backend, LAYERS[0], cache, [Part(tree, 44, 45, tree=True)]))
    assert torch.equal(*outs)


def test_a_path_beyond_all_scratch_blocks_is_refused() -> None:
    tree = sequence(45, parents=PARENTS)
    with pytest.raises(ValueError, match="scratch blocks"):
        attend(flex(tiled_kernel), LAYERS[0], pool(scratch=1), [Part(tree, 0, 45, tree=True)])


def test_what_is_broken_in_one_sequence_stays_there() -> None:
    broken, sound = sequence(20, seed=1), sequence(20, seed=2)
    broken.k[3:] = torch.nan
    broken.v[3:] = torch.inf
    cache, backend = pool(), flex(tiled_kernel)
    out = attend(backend, LAYERS[0], cache, [Part(broken, 0, 20)])
    assert not out[3:].isfinite().any()
    # The blocks of the one go to the other, whose rows come up to the old ones.
    parts = [Part(sound, 0, 18)]
    check(attend(backend, LAYERS[0], cache, parts), parts, LAYERS[0])
