"""Rows that leave a pass in the middle change no bit of the others; nobody reads their slots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dspark.verifier.config import VerifierConfig
from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.cut_trial import cut_problem
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch
from dspark.verifier.model.restricted_head import RestrictedHead
from dspark.verifier.model.target_model import CutRunner, Runner
from dspark.verifier.native.packing import pack
from dspark.verifier.pruning.cut import Cut, Rows
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model

BLOCK_SIZE = 4
LENGTH = 9
# Nodes of a tree behind the prompt, by their parents; slots are scattered over the pool.
PARENTS = (0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8)
TOKENS = [(i * 37 + 11) % VOCAB_SIZE for i in range(LENGTH + len(PARENTS))]
NODE_SLOTS = [40 + 7 * node % 24 for node in range(len(PARENTS))]
ANCHOR = LENGTH - 1
DROPPED = (1, 4, 5, 7, 8, 9, 11)


def runner_of(directory: Path, architecture: str, **settings: str) -> Runner:
    config = VerifierConfig(
        model=str(save_tiny_model(architecture, directory)),
        kv_tokens=256,
        block_size=BLOCK_SIZE,
        max_step_rows=2,
        early_pruning="off",
        **settings,
    )
    loaded = load_model(config, lambda line: None)
    assert isinstance(loaded.runner, Runner)
    return loaded.runner


def cutting(runner: Runner) -> CutRunner:
    return CutRunner(runner.model, runner.kv_cache)  # type: ignore[arg-type]


def tree_pass() -> ForwardBatch:
    prefix = tuple(range(LENGTH))
    rows = plain_rows(TOKENS[:LENGTH], prefix)
    paths: list[tuple[int, ...]] = [()]
    for node, parent in enumerate(PARENTS):
        paths.append((*paths[parent], NODE_SLOTS[node]))
        rows.append(ProbeRow(TOKENS[LENGTH + node], prefix, paths[-1]))
    return probe_batch(rows, range(ANCHOR, LENGTH + len(PARENTS)), BLOCK_SIZE)


def kept_rows(dropped: tuple[int, ...]) -> Rows:
    return np.delete(np.arange(LENGTH + len(PARENTS)), [LENGTH + node for node in dropped])


def poison(pool: KvCache) -> None:
    pool.slots.fill_(float("nan"))


def wanted(logits: NDArray[np.float32], kept: Rows) -> NDArray[np.float32]:
    """Of logits from the anchor on, those of the kept rows."""
    return logits[kept[kept >= ANCHOR] - ANCHOR]


CASES = [(name, {"kernels": "native"}) for name in ARCHITECTURES]
CASES += [("llama", {"kernels": "native", "weight_dtype": dtype}) for dtype in ("bf16", "int8")]
CASES += [("qwen3", {"kernels": "native", "weight_dtype": "int4"})]


@pytest.mark.parametrize(("architecture", "settings"), CASES, ids=str)
def test_kept_rows_get_the_same_bits(
    tmp_path: Path, architecture: str, settings: dict[str, str]
) -> None:
    runner = runner_of(tmp_path, architecture, **settings)
    batch = tree_pass()
    poison(runner.kv_cache)
    plain = np.array(runner.forward(batch))
    asked = np.arange(3, dtype=np.int64)
    for layer in range(1, cutting(runner).num_layers):
        for dropped in (DROPPED, tuple(range(len(PARENTS))), ()):
            poison(runner.kv_cache)
            kept = kept_rows(dropped)
            cut = Cut(layer, asked + ANCHOR, asked, lambda logits, kept=kept: kept)  # type: ignore[misc]
            found = np.array(cutting(runner).forward_cut(batch, cut))
            assert np.array_equal(found, wanted(plain, kept))
            slots = [NODE_SLOTS[node] for node in dropped]
            later = runner.kv_cache.slots[layer:, :, slots].float()
            assert torch.isnan(later).all(), "rows that left wrote to later layers"
            mine = runner.kv_cache.slots[:, :, batch.slot_mapping[kept].astype(np.int64)].float()
            assert torch.isfinite(mine).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_a_cut_is_told_are_the_logits_of_a_shorter_model(
    tmp_path: Path, architecture: str
) -> None:
    runner = runner_of(tmp_path, architecture, kernels="native")
    batch, token_ids = tree_pass(), np.array([0, 5, 11, VOCAB_SIZE - 1])
    probes = np.array([ANCHOR, LENGTH + 1, LENGTH + 4])
    model = runner.model
    for layer in range(1, cutting(runner).num_layers):
        told: list[NDArray[np.float32]] = []

        def choose(logits: NDArray[np.float32], told: list[NDArray[np.float32]] = told) -> Rows:
            told.append(logits.copy())
            return kept_rows(())

        cutting(runner).forward_cut(batch, Cut(layer, probes, token_ids, choose))
        shorter = model.forward(batch, runner.kv_cache, num_layers=layer)  # type: ignore[call-arg]
        expected = shorter[probes - ANCHOR][:, token_ids]
        np.testing.assert_allclose(told[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layers", [(0,), (0, 1), (0, 1, 2), (1, 2), (2,)])
def test_features_of_kept_rows_are_those_of_a_whole_pass(
    tmp_path: Path, layers: tuple[int, ...]
) -> None:
    runner = runner_of(tmp_path, "gemma3", kernels="native")
    rows = np.array([2, ANCHOR, LENGTH, LENGTH + 1, LENGTH + 3, LENGTH + 9])
    batch = tree_pass()
    plain = FeatureBuffer.of(layers, rows, runner.hidden_size)
    runner.forward(replace(batch, features=plain))
    kept = kept_rows(DROPPED)
    for layer in range(1, cutting(runner).num_layers):
        found = FeatureBuffer.of(layers, rows, runner.hidden_size)
        cut = Cut(layer, rows[:1], rows[:1], lambda logits: kept)
        cutting(runner).forward_cut(replace(batch, features=found), cut)
        stays = np.isin(rows, kept)
        assert np.array_equal(found.values[stays], plain.values[stays])


def test_a_pass_after_a_cut_that_failed_starts_anew(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, "llama", kernels="native")
    batch = tree_pass()
    plain = np.array(runner.forward(batch))

    def fail(logits: NDArray[np.float32]) -> Rows:
        raise RuntimeError("no choice")

    with pytest.raises(RuntimeError, match="no choice"):
        cutting(runner).forward_cut(batch, Cut(1, np.array([0]), np.array([0]), fail))
    assert np.array_equal(runner.forward(batch), plain)


def test_the_trial_finds_a_model_that_reads_what_has_left(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, "llama", kernels="native")
    assert cut_problem(runner.forward, cutting(runner), runner.kv_cache) is None
    slots = runner.kv_cache.slots[:, :, :32].float()
    assert torch.isfinite(slots).all(), "the trial leaves no NaN behind"

    class Wrong(CutRunner):
        def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
            return super().forward_cut(batch, cut) + np.float32(1e-3)

    class Broken(CutRunner):
        def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
            raise ValueError("no such rows")

    for kind, problem in ((Wrong, "other logits"), (Broken, "ValueError: no such rows")):
        bound = kind(runner.model, runner.kv_cache)  # type: ignore[arg-type]
        assert problem in str(cut_problem(runner.forward, bound, runner.kv_cache))


def test_a_head_with_bias_and_cap() -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(45, 24), torch.randn(45)
    packed = pack(weight, bias)
    states, token_ids = np.random.default_rng(0).normal(size=(3, 24)), np.array([0, 17, 44])
    rows = states.astype(np.float32)
    full = torch.from_numpy(rows) @ weight.T + bias
    for cap in (0.0, 3.0):
        expected = (cap * torch.tanh(full / cap) if cap else full)[:, token_ids]
        found = RestrictedHead(packed.struct, cap).logits(rows, token_ids)
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-5)
