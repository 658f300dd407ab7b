"""What models export is what transformers calls hidden states, and costs no bit of the logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dspark.features import FINAL_LAYER
from dspark.verifier.config import VerifierConfig
from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.interfaces import LoadedModel
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.probe_rows import plain_rows, probe_batch
from harness.tiny_models import VOCAB_SIZE, save_tiny_model, tiny_model

LENGTH = 20
TOKENS = [(i * 31 + 7) % VOCAB_SIZE for i in range(LENGTH)]
# The fused decoder, the class's own forward on our kernels, torch alone.
PATHS = [("native", "native"), ("native", "torch"), ("torch", "torch")]


def load(directory: Path, kernels: str, attention: str) -> LoadedModel:
    config = VerifierConfig(
        model=str(save_tiny_model("llama", directory)),
        kernels=kernels,
        attention=attention,
        kv_tokens=512,
        max_step_rows=2,
    )
    return load_model(config, lambda line: None)


def hidden_states(layer: int) -> NDArray[np.float32]:
    """[LENGTH, hidden_size] by transformers."""
    model = tiny_model("llama")
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        states = model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
    values: NDArray[np.float32] = states[-1 if layer == FINAL_LAYER else layer][0].numpy()
    return values


@pytest.mark.parametrize(("kernels", "attention"), PATHS)
def test_layers_are_those_of_transformers(tmp_path: Path, kernels: str, attention: str) -> None:
    runner = load(tmp_path, kernels, attention).runner
    layers = runner.feature_layers
    assert layers[0] == FINAL_LAYER and len(layers) > 1
    rows = np.array([3, 4, LENGTH - 1])
    batch = probe_batch(plain_rows(TOKENS, range(LENGTH)), range(LENGTH), block_size=16)
    plain = np.array(runner.forward(batch))
    wanted = FeatureBuffer.of(layers, rows, runner.hidden_size)
    logits = np.array(runner.forward(replace(batch, features=wanted)))
    assert np.array_equal(logits, plain)
    for index, layer in enumerate(layers):
        expected = hidden_states(layer)[rows]
        np.testing.assert_allclose(wanted.values[:, index], expected, rtol=1e-4, atol=1e-4)
    head = tiny_model("llama").get_output_embeddings().weight.detach().numpy()
    np.testing.assert_allclose(wanted.values[:, 0] @ head.T, plain[rows], rtol=1e-4, atol=1e-4)
    some = FeatureBuffer.of(layers[-1:], rows[:1], runner.hidden_size)
    runner.forward(replace(batch, features=some))
    assert np.array_equal(some.values[0, 0], wanted.values[0, -1])
