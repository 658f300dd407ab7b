from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.training.block_batches import BlockTexts
from dspark.training.block_sizes import layers_of, sizes_for
from dspark.training.feature_layers import evenly_spaced
from dspark.training.progress_file import ProgressFile
from dspark.training.text_store import TextStore
from dspark.training.trainer import TrainResult
from harness import tiny_training
from harness.tiny_models import save_tiny_model
from harness.tiny_training import HIDDEN, counting_texts, kill_at_sample

LAYERS = (1, 0)
STEPS = 90


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("block") / "tiny")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspark.training.block_trainer.TEXTS_A_STEP", 4)
    monkeypatch.setattr("dspark.training.block_trainer.BLOCKS_A_TEXT", 8)


def texts_in(folder: Path, model: Path, layers: tuple[int, ...] = LAYERS) -> TextStore:
    return counting_texts(folder, model, layers)


def train(store: TextStore, model: Path, out: Path, **more: Any) -> TrainResult:
    return tiny_training.train("block", store, model, out, **{"steps": STEPS, **more})


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainResult]:
    out = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dspark.training.block_trainer.TEXTS_A_STEP", 4)
        patch.setattr("dspark.training.block_trainer.BLOCKS_A_TEXT", 8)
        return out, train(texts_in(out / "texts", model), model, out)


def test_learns_what_the_texts_say(trained: tuple[Path, TrainResult]) -> None:
    out, result = trained
    losses = [e["loss"] for e in ProgressFile(out / "block.progress.jsonl").read() if "loss" in e]
    assert len(losses) == STEPS
    assert losses[-1] < 0.5 * losses[0]
    assert len(result.card["validation_top1"]) == 6
    assert result.card["validation_top1"][0] > 0.9
    assert result.card["alone"]["acceptance_length"] > 2
    assert set(result.card) >= {"with_suffix", "with_ngram_and_suffix", "temperatures", "window"}
    assert any("held out, alone" in line for line in result.lines)
    json.dumps(result.card)


def test_a_killed_run_ends_with_the_same_weights(
    model: Path,
    trained: tuple[Path, TrainResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = texts_in(tmp_path / "texts", model)
    steps = kill_at_sample(monkeypatch, BlockTexts, 26)
    with pytest.raises(KeyboardInterrupt):
        train(store, model, tmp_path, checkpoint_interval_s=-1.0)
    assert (tmp_path / "block.checkpoint").exists()
    train(store, model, tmp_path)
    assert steps == [*range(26), *range(25, STEPS)]
    ended, undisturbed = (
        SafetensorsFile(folder / "block.safetensors") for folder in (tmp_path, trained[0])
    )
    for name in ("fuse.weight", "slots", "layers.1.down.weight", "markov.second", "temperatures"):
        assert ended.raw(name).tobytes() == undisturbed.raw(name).tobytes()
    assert not (tmp_path / "block.checkpoint").exists()


def test_texts_without_the_hidden_states_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"have the hidden states of layers \(0,\), not \(0, 1\)"):
        train(texts_in(tmp_path / "texts", model, (0,)), model, tmp_path)


@pytest.mark.parametrize(
    ("num_layers", "layers"),
    [(1, (0, 1)), (2, (0, 1)), (4, (0, 1, 2)), (30, (0, 9, 19, 28)), (36, (0, 11, 23, 34))],
)
def test_layers_are_evenly_spaced(num_layers: int, layers: tuple[int, ...]) -> None:
    assert evenly_spaced(num_layers) == layers


def test_sizes_are_those_of_the_target(model: Path, tmp_path: Path) -> None:
    sizes = sizes_for(model)
    assert (sizes.hidden_size, sizes.num_features) == (HIDDEN, 2)
    assert (sizes.num_heads, sizes.num_kv_heads, sizes.head_size) == (6, 2, 16)
    assert sizes.inner_size == 80
    config = json.loads((model / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}))
    assert sizes_for(tmp_path) == sizes
    assert layers_of(tmp_path) == (0, 1)
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 2}))
    with pytest.raises(ValueError, match="does not tell the sizes"):
        sizes_for(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="does not tell how many layers"):
        layers_of(tmp_path)


def test_there_is_no_start_to_go_on_from(
    model: Path, trained: tuple[Path, TrainResult], tmp_path: Path
) -> None:
    store = texts_in(tmp_path / "texts", model)
    with pytest.raises(ValueError, match="--start-from: block is always trained anew"):
        train(store, model, tmp_path, start_from=trained[0] / "block.safetensors")
