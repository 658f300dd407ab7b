"""Recorded passes give the logits of computed ones, and leave everything else to the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dspark.verifier.attention.flex_backend import FlexAttention
from dspark.verifier.attention.torch_backend import TorchAttention
from dspark.verifier.device.transfer import HostTransfer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model import graph_setup
from dspark.verifier.model.graphed_model import GraphedModel
from dspark.verifier.model.padded_batch import padded
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch
from dspark.verifier.model.self_test import RowInvarianceTest
from dspark.verifier.model.stock_model import StockModel
from harness.fake_recorder import BrokenRecorder, FakeRecorder
from harness.tiled_kernel import tiled_kernel
from harness.tiny_models import tiny_model

BLOCK_SIZE, NUM_BLOCKS = 16, 12
TOKENS = [(i * 31 + 7) % 97 for i in range(40)]


def pool(layers: int, kv_heads: int) -> KvCache:
    return KvCache(
        num_layers=layers,
        num_blocks=NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        num_kv_heads=kv_heads,
        head_dim=16,
        dtype=torch.float32,
        num_scratch_blocks=9,
    )


def stock(architecture: str = "llama") -> StockModel:
    backend = FlexAttention(tiled_kernel, HostTransfer())
    return StockModel(tiny_model(architecture), backend, torch.float32)


def graphed(
    model: StockModel,
    cache: KvCache,
    *,
    max_blocks: int = 4,
    row_counts: tuple[int, ...] = (4, 8),
    recorder: FakeRecorder | None = None,
) -> GraphedModel:
    made = GraphedModel(model, model.backend, cache)  # type: ignore[arg-type]
    made.record(recorder or FakeRecorder(), max_blocks, row_counts)
    return made


def passes() -> list[ForwardBatch]:
    """A prompt, single rows at several lengths, a tree, and two sequences."""
    rows = plain_rows(TOKENS, range(40))
    prefix = tuple(range(20))
    tree = [
        rows[19],
        ProbeRow(3, prefix, (21,)),
        ProbeRow(4, prefix, (21, 24)),
        ProbeRow(5, prefix, (23,)),
    ]
    other = plain_rows(TOKENS[5:12], range(64, 71))
    batches = [rows[:19], [rows[19]], tree, rows[20:27], other, [rows[27], ProbeRow(9, (96,))]]
    return [probe_batch(batch, range(len(batch)), BLOCK_SIZE) for batch in batches]


@pytest.mark.parametrize(("architecture", "kv_heads"), [("llama", 2), ("gemma3", 1)])
def test_replayed_passes_equal_computed_ones(architecture: str, kv_heads: int) -> None:
    layers = 3 if architecture == "gemma3" else 2
    model = stock(architecture)
    plain_cache, cache = pool(layers, kv_heads), pool(layers, kv_heads)
    recorder = FakeRecorder()
    replaying = graphed(model, cache, recorder=recorder)
    for batch in passes():
        expected = model.forward(batch, plain_cache).copy()
        logits = replaying.forward(batch, cache)
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert recorder.num_replays == 5
    keys = [each.slots[:, 0] for each in (cache, plain_cache)]
    written = sorted({int(slot) for batch in passes() for slot in batch.slot_mapping})
    torch.testing.assert_close(keys[0][:, written], keys[1][:, written])


def test_filler_writes_to_no_slot_of_a_sequence() -> None:
    model, cache = stock(), pool(2, 2)
    replaying = graphed(model, cache)
    replaying.forward(passes()[1], cache)
    cache.tensor.zero_()
    replaying.forward(passes()[1], cache)
    touched = cache.slots[:, :, : NUM_BLOCKS * BLOCK_SIZE].abs().sum((0, 1, 3, 4))
    assert touched.nonzero().flatten().tolist() == [19]


def test_too_many_rows_and_too_long_lists_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache = stock(), pool(2, 2)
    computed: list[int] = []
    forward = StockModel.forward

    def counting(self: StockModel, batch: ForwardBatch, kv_cache: KvCache) -> object:
        computed.append(batch.num_rows)
        return forward(self, batch, kv_cache)

    replaying = graphed(model, cache, max_blocks=1)
    monkeypatch.setattr(StockModel, "forward", counting)
    rows = plain_rows(TOKENS, range(40))
    for batch in (rows[:9], [rows[3]], [rows[39]]):
        replaying.forward(probe_batch(batch, [0], BLOCK_SIZE), cache)
    # A list may also have the copies of paths that the row count allows.
    long = plain_rows([0] * 180, range(180))[-1]
    replaying.forward(probe_batch([long], [0], BLOCK_SIZE), cache)
    assert computed == [9, 1]


def test_nodes_have_the_bits_of_plain_rows() -> None:
    cache = pool(2, 2)
    # One size, so that torch's matmuls have one shape.
    replaying = graphed(stock(), cache, row_counts=(8,))
    test = RowInvarianceTest(
        lambda batch: replaying.forward(batch, cache), 97, cache.num_slots, BLOCK_SIZE
    )
    assert "tree rows" not in test.failures(max_rows=0)


def test_padded_rows_come_after_and_see_their_own_slot() -> None:
    batch = probe_batch(plain_rows([5, 6, 7], range(16, 19)), [2], BLOCK_SIZE)
    full = padded(batch, 5, block=11, block_size=BLOCK_SIZE)
    assert full.token_ids.tolist() == [5, 6, 7, 0, 0]
    assert full.slot_mapping.tolist() == [16, 17, 18, 176, 176]
    assert full.logits_rows.tolist() == [2, 0, 0, 0, 0]
    assert full.sequence_ids.tolist() == [0, 0, 0, 1, 1]
    assert full.block_tables.tolist() == [[1], [11]]
    own = full.prefix_slots[full.prefix_starts[3] :][: full.prefix_lens[3]]
    assert own.tolist() == [176]


def with_recordings(model: StockModel, recorder: object, *, is_strict: bool = False) -> object:
    return graph_setup.with_recordings(
        model,
        pool(2, 2),
        recorder,  # type: ignore[arg-type]
        max_len=64,
        is_strict=is_strict,
    )


def test_what_can_be_recorded_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    made = with_recordings(stock(), FakeRecorder())
    assert isinstance(made, GraphedModel)
    assert "recorded for 4, 8, 16, 32, 64 rows" in caplog.text


def test_a_device_that_records_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = stock()
    assert with_recordings(model, BrokenRecorder()) is model
    (record,) = caplog.records
    assert "operation not permitted when stream is capturing" in record.getMessage()


def test_strict_replays_must_have_the_bits_of_computed_passes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = GraphedModel.forward

    def rounded(self: GraphedModel, batch: ForwardBatch, kv_cache: KvCache) -> object:
        return forward(self, batch, kv_cache) * np.float32(1 + 1e-5)

    monkeypatch.setattr(GraphedModel, "forward", rounded)
    strict, fast = stock(), stock()
    assert with_recordings(strict, FakeRecorder(), is_strict=True) is strict
    assert "differ from the expected ones" in caplog.text
    assert isinstance(with_recordings(fast, FakeRecorder()), GraphedModel)


def test_a_backend_without_fixed_shapes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    model = StockModel(tiny_model("llama"), TorchAttention(HostTransfer()), torch.float32)
    assert with_recordings(model, FakeRecorder()) is model
    assert "no fixed shapes" in caplog.text


def test_recordings_that_compute_something_else_are_dropped(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A replay that reads what was there when it was recorded.
    monkeypatch.setattr(FlexAttention, "refill", lambda *arguments: True)
    model = stock()
    assert with_recordings(model, FakeRecorder()) is model
    assert "differ from the expected ones" in caplog.text


def test_nothing_is_recorded_on_the_cpu_or_when_told_not_to() -> None:
    assert graph_setup.recorder_for(torch.device("cpu"), wanted=True) is None
    assert graph_setup.recorder_for(torch.device("cuda"), wanted=False) is None
