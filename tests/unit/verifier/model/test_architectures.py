"""Tiny random models of each architecture against transformers' own eager logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch
from harness.tiny_models import ARCHITECTURES, GEMMA_WINDOW, VOCAB_SIZE, save_tiny_model, tiny_model

LENGTH = 40
TOKENS = [(i * 31 + 7) % VOCAB_SIZE for i in range(LENGTH)]
# (kernels, attention): the fused decoder, the class's own forward on our kernels, torch alone.
PATHS = [("native", "native"), ("native", "torch"), ("torch", "torch")]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedModel]:
    @cache
    def directory(architecture: str) -> Path:
        return save_tiny_model(architecture, tmp_path_factory.mktemp(architecture))

    @cache
    def load(architecture: str, kernels: str, attention: str) -> LoadedModel:
        config = VerifierConfig(
            model=str(directory(architecture)),
            kernels=kernels,
            attention=attention,
            kv_tokens=512,
            max_step_rows=2,
        )
        return load_model(config, lambda line: None)

    return load


@cache
def eager_logits(architecture: str) -> NDArray[np.float32]:
    model = tiny_model(architecture)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits: NDArray[np.float32] = model(torch.tensor([TOKENS])).logits[0].numpy()
    return logits


def logits_of(model: LoadedModel, rows: list[ProbeRow]) -> NDArray[np.float32]:
    return np.array(model.runner.forward(probe_batch(rows, range(len(rows)), block_size=16)))


def one_by_one(model: LoadedModel) -> NDArray[np.float32]:
    rows = plain_rows(TOKENS, range(LENGTH))
    return np.concatenate([logits_of(model, [row]) for row in rows])


@pytest.mark.parametrize(("kernels", "attention"), PATHS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_transformers_and_itself(
    loaded: Callable[..., LoadedModel], architecture: str, kernels: str, attention: str
) -> None:
    model = loaded(architecture, kernels, attention)
    assert model.exactness == "strict"
    assert LENGTH > GEMMA_WINDOW
    expected = one_by_one(model)
    np.testing.assert_allclose(expected, eager_logits(architecture), rtol=1e-4, atol=1e-4)
    check_chunks(model, expected)
    check_tree(model, expected)


def check_chunks(model: LoadedModel, expected: NDArray[np.float32]) -> None:
    """Prefill in chunks, over slots in no order, gives the bits of decoding one by one."""
    slots = [(i * 37) % 511 for i in range(LENGTH)]
    chunks = [(0, 1), (1, 18), (18, 20), (20, LENGTH)]
    parts = [logits_of(model, plain_rows(TOKENS[:end], slots, start)) for start, end in chunks]
    assert np.array_equal(np.concatenate(parts), expected)


def check_tree(model: LoadedModel, expected: NDArray[np.float32]) -> None:
    """Tree rows with siblings, in scattered slots, mixed with another sequence's rows."""
    committed = LENGTH - 3
    prefix = tuple(range(200, 200 + committed))
    logits_of(model, plain_rows(TOKENS[:committed], prefix))
    path = (499, 77, 301)
    rows: list[ProbeRow] = plain_rows([3, 4, 5], [10, 11, 12])
    for depth in range(3):
        sibling = (*path[:depth], 400 + depth)
        rows.append(ProbeRow(9, prefix, sibling))
        rows.append(ProbeRow(TOKENS[committed + depth], prefix, path[: depth + 1]))
    logits = logits_of(model, rows)
    assert np.array_equal(logits[[4, 6, 8]], expected[committed:])


def test_moved_tree_rows_serve_the_next_pass(loaded: Callable[..., LoadedModel]) -> None:
    model = loaded("llama", "native", "native")
    expected = one_by_one(model)
    committed = LENGTH - 3
    prefix = list(range(100, 100 + committed))
    logits_of(model, plain_rows(TOKENS[:committed], prefix))
    tree = [
        ProbeRow(TOKENS[committed + d], tuple(prefix), tuple(range(300, 301 + d))) for d in range(2)
    ]
    logits_of(model, tree)
    model.kv.move(np.array([300, 301], np.int32), np.array([100 + committed, 101 + committed]))
    last = plain_rows(TOKENS, [*prefix, 100 + committed, 101 + committed, 50])[-1]
    assert np.array_equal(logits_of(model, [last])[0], expected[-1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bfloat16_weights(
    loaded: Callable[..., LoadedModel], architecture: str, tmp_path: Path
) -> None:
    """bf16 weights and K/V stay near float32, and rows stay independent to the bit."""
    config = VerifierConfig(
        model=str(save_tiny_model(architecture, tmp_path)),
        weight_dtype="bf16",
        kv_tokens=512,
        max_step_rows=2,
    )
    model = load_model(config, lambda line: None)
    assert (model.exactness, model.dtype) == ("strict", "bf16")
    expected = one_by_one(model)
    check_chunks(model, expected)
    check_tree(model, expected)
    eager = eager_logits(architecture)
    assert np.abs(expected - eager).max() < 0.1 * np.abs(eager).max()
