"""Every CPU backend against plain dense attention, and bit for bit against itself."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.attention.backend import AttentionBackend, AttentionLayer
from dspark.verifier.attention.registry import BACKENDS
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch

KV_HEADS, DIM, BLOCK_SIZE, NUM_SLOTS = 2, 24, 16, 512
LAYERS = [
    AttentionLayer(0, 0.3),
    AttentionLayer(0, 0.3, sliding_window=5),
    AttentionLayer(0, 0.3, sliding_window=70),
    AttentionLayer(0, 0.3, soft_cap=2.0),
]


@pytest.fixture(params=["native", "torch"])
def backend(request: pytest.FixtureRequest) -> AttentionBackend:
    return BACKENDS[request.param](torch.device("cpu"), 2)


class Sequence:
    """Random queries, keys and values of one sequence."""

    def __init__(self, length: int, group: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.length = length
        self.q = torch.randn(length, KV_HEADS * group, DIM, generator=generator)
        self.k, self.v = torch.randn(2, length, KV_HEADS, DIM, generator=generator)

    def dense(self, layer: AttentionLayer) -> torch.Tensor:
        """Causal attention in float64."""
        group = self.q.shape[1] // KV_HEADS
        k = self.k.double().repeat_interleave(group, dim=1)
        v = self.v.double().repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", self.q.double(), k) * layer.scaling
        if layer.soft_cap:
            scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
        distance = torch.arange(self.length)[:, None] - torch.arange(self.length)
        hidden = distance < 0
        if layer.sliding_window:
            hidden |= distance >= layer.sliding_window
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, v)


def pool(dtype: torch.dtype = torch.float32) -> KvCache:
    cache = KvCache(
        num_layers=1,
        num_blocks=NUM_SLOTS // BLOCK_SIZE,
        block_size=BLOCK_SIZE,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        dtype=dtype,
    )
    # What lies in slots that no row sees must not matter.
    cache.tensor.fill_(torch.nan)
    return cache


def batch_of(rows: list[ProbeRow]) -> ForwardBatch:
    return probe_batch(rows, [0], BLOCK_SIZE)


def run(
    backend: AttentionBackend,
    layer: AttentionLayer,
    cache: KvCache,
    rows: list[ProbeRow],
    sequence: Sequence,
    positions: list[int],
) -> torch.Tensor:
    q, k, v = sequence.q[positions], sequence.k[positions], sequence.v[positions]
    return backend.attend(backend.plan(batch_of(rows)), layer, cache, q, k, v)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7])
def test_equals_dense_attention(backend: AttentionBackend, group: int) -> None:
    sequence = Sequence(length=90, group=group)
    rows = plain_rows([0] * 90, range(90))
    for layer in LAYERS:
        out = run(backend, layer, pool(), rows, sequence, list(range(90)))
        torch.testing.assert_close(out.double(), sequence.dense(layer), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunks_and_trees_equal_one_pass_to_the_bit(
    backend: AttentionBackend, layer: AttentionLayer, dtype: torch.dtype
) -> None:
    length, committed = 75, 70
    sequence = Sequence(length, group=3)
    expected = run(
        backend,
        layer,
        pool(dtype),
        plain_rows([0] * length, range(length)),
        sequence,
        list(range(length)),
    )
    cache, slots = pool(dtype), list(range(400, 400 - length, -1))
    for start, end in ((0, 1), (1, 40), (40, committed)):
        rows = plain_rows([0] * end, slots, start)
        out = run(backend, layer, cache, rows, sequence, list(range(start, end)))
        assert torch.equal(out, expected[start:end])
    prefix = tuple(slots[:committed])
    tail = (17, 501, 3, 90, 88)
    tree = [ProbeRow(0, prefix, tail[: depth + 1]) for depth in range(5)]
    out = run(backend, layer, cache, tree, sequence, list(range(committed, length)))
    assert torch.equal(out, expected[committed:])


def test_rows_do_not_depend_on_their_neighbours(backend: AttentionBackend) -> None:
    sequence = Sequence(length=200, group=3)
    rows = plain_rows([0] * 200, range(200))
    cache = pool()
    expected = run(backend, LAYERS[0], cache, rows, sequence, list(range(200)))
    for positions in ([0], [130], [199, 3], [64, 63, 65], list(range(199, -1, -7))):
        chosen = [rows[p] for p in positions]
        out = run(backend, LAYERS[0], cache, chosen, sequence, positions)
        assert torch.equal(out, expected[positions])


def test_native_refuses_heads_of_odd_size() -> None:
    cache = KvCache(
        num_layers=1, num_blocks=1, block_size=16, num_kv_heads=1, head_dim=12, dtype=torch.float32
    )
    native = BACKENDS["native"](torch.device("cpu"), 1)
    rows = torch.randn(1, 1, 12)
    with pytest.raises(ValueError, match="head_dim 12"):
        native.attend(
            native.plan(batch_of(plain_rows([0], [0]))), LAYERS[0], cache, rows, rows, rows
        )
