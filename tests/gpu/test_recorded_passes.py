"""Recorded passes and staged copies on a device (where it is the CPU, their stand-ins)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from dspark.verifier.config import VerifierConfig
from dspark.verifier.device.transfer import transfer_for
from dspark.verifier.interfaces import LoadedModel
from dspark.verifier.model import loader
from dspark.verifier.model.graph_recorder import CudaGraphRecorder, GraphRecorder
from dspark.verifier.model.graphed_model import GraphedModel
from dspark.verifier.model.probe_rows import plain_rows, probe_batch
from dspark.verifier.model.target_model import Runner
from harness.fake_recorder import FakeRecorder
from harness.tiny_models import save_tiny_model

pytestmark = pytest.mark.gpu
TOKENS = [(i * 31 + 7) % 97 for i in range(40)]


def load(folder: Path, device: str, *, cuda_graphs: bool, dtype: str = "bf16") -> LoadedModel:
    config = VerifierConfig(
        str(folder),
        kv_tokens=512,
        device=device,
        kernels="torch",
        attention="flex",
        weight_dtype=dtype,
        cuda_graphs=cuda_graphs,
        exactness="fast" if device == "cpu" else "strict",
        max_step_rows=4,
    )
    return loader.load_model(config, lambda line: None)


def recorder_of(device: torch.device, wanted: bool) -> GraphRecorder | None:
    if not wanted:
        return None
    return CudaGraphRecorder(device) if device.type == "cuda" else FakeRecorder()


def logits_of(loaded: LoadedModel) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """A prompt, then single rows at growing lengths, then several rows at once."""
    rows = plain_rows(TOKENS, range(40))
    passes = [rows[:20], *([row] for row in rows[20:34]), rows[34:40]]
    return [
        np.array(loaded.runner.forward(probe_batch(batch, range(len(batch)), 16)))
        for batch in passes
    ]


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_replays_have_the_bits_of_computed_passes(
    tmp_path: Path,
    device: str,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(loader, "recorder_for", recorder_of)
    save_tiny_model("llama", tmp_path)
    plain = load(tmp_path, device, cuda_graphs=False, dtype=dtype)
    recorded = load(tmp_path, device, cuda_graphs=True, dtype=dtype)
    assert isinstance(recorded.runner, Runner)
    assert isinstance(recorded.runner.model, GraphedModel), caplog.text
    assert recorded.exactness == plain.exactness
    for mine, other in zip(logits_of(recorded), logits_of(plain), strict=True):
        if recorded.exactness == "strict":
            np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(mine, other, rtol=0.05, atol=0.05)


def test_arrays_survive_the_way_there_and_back(device: str) -> None:
    transfer = transfer_for(torch.device(device))
    generator = np.random.default_rng(0)
    for size in (3, 5000, 70, 5000):
        floats = generator.random((size, 7), dtype=np.float32)
        ids = np.arange(size, dtype=np.int64)[::-1]
        sent, order = transfer.to_device([floats, ids])
        back = transfer.to_host(sent[order])
        np.testing.assert_array_equal(back, floats[::-1])
