from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.training.draft_anchors import DraftAnchors
from dspark.training.draft_vocabulary import draft_vocabulary
from dspark.training.progress_file import ProgressFile
from dspark.training.text_batches import NO_LABEL
from dspark.training.text_store import StoredText, TextStore
from dspark.training.trainer import TrainResult
from harness import tiny_training
from harness.tiny_models import save_tiny_model
from harness.tiny_training import counting_texts, kill_at_sample

LAYERS = (1, 0)
STEPS = 200


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("medusa") / "tiny")


def texts_in(folder: Path, model: Path) -> TextStore:
    return counting_texts(folder, model, LAYERS)


def train(store: TextStore, model: Path, out: Path, **more: Any) -> TrainResult:
    return tiny_training.train("medusa", store, model, out, **{"steps": STEPS, **more})


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainResult]:
    out = tmp_path_factory.mktemp("trained")
    return out, train(texts_in(out / "texts", model), model, out)


def test_learns_what_the_texts_say(trained: tuple[Path, TrainResult]) -> None:
    out, result = trained
    losses = [e["loss"] for e in ProgressFile(out / "medusa.progress.jsonl").read() if "loss" in e]
    assert len(losses) == STEPS
    assert losses[-1] < 0.7 * losses[0]
    assert result.card["validation_top1"][0] > 0.9
    assert result.card["alone"]["acceptance_length"] > 2
    assert set(result.card) >= {"with_suffix", "with_ngram_and_suffix", "temperatures"}
    assert any("held out, alone" in line for line in result.lines)


def test_a_killed_run_ends_with_the_same_weights(
    model: Path,
    trained: tuple[Path, TrainResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = texts_in(tmp_path / "texts", model)
    steps = kill_at_sample(monkeypatch, DraftAnchors, 26)
    with pytest.raises(KeyboardInterrupt):
        train(store, model, tmp_path, checkpoint_interval_s=-1.0)
    assert (tmp_path / "medusa.checkpoint").exists()
    train(store, model, tmp_path)
    assert steps == [*range(26), *range(25, STEPS)]
    ended, undisturbed = (
        SafetensorsFile(folder / "medusa.safetensors") for folder in (tmp_path, trained[0])
    )
    for name in ("blocks.weight", "blocks.bias", "markov.first", "markov.second", "temperatures"):
        assert ended.raw(name).tobytes() == undisturbed.raw(name).tobytes()
    assert not (tmp_path / "medusa.checkpoint").exists()
    progress = ProgressFile(tmp_path / "medusa.progress.jsonl").read()
    assert [entry["step"] for entry in progress if "loss" in entry] == [*range(1, STEPS + 1)]


def text(*token_ids: int, prompt: int = 1) -> StoredText:
    features = np.arange(len(token_ids) - 1, dtype=np.uint16)[:, None, None]
    return StoredText(np.array(token_ids, dtype=np.uint32), prompt, features)


def test_the_draft_vocabulary_has_the_frequent_and_the_special() -> None:
    texts = [text(9, 3, 3, 4, 4, 5), text(8, 3, 4, 6)]
    assert draft_vocabulary(texts, 10, [9, 7], max_ids=3).tolist() == [3, 4, 9]
    assert draft_vocabulary(texts, 10, [], max_ids=99).tolist() == [3, 4, 5, 6]


def test_anchors_see_the_token_before_and_learn_those_after() -> None:
    anchors = DraftAnchors([text(1, 2, 3, 7, 2, 3)], 0, np.array([2, 3]), 10, 2)
    assert anchors.places[:, 1].tolist() == [1, 2, 3, 4]
    assert anchors.complete().tolist() == [0, 1, 2]
    batch = anchors.batch(np.arange(4))
    assert (batch.hidden[:, 0].view(np.uint32) >> 16).tolist() == [0, 1, 2, 3]
    assert batch.anchors.tolist() == [2, 3, 7, 2]
    # Row 2 stands for all that are not in the vocabulary.
    assert batch.previous.tolist() == [[0, 1], [1, 2], [2, 0], [0, 1]]
    no = NO_LABEL
    assert batch.labels.tolist() == [[1, no], [no, 0], [0, 1], [1, no]]


def test_samples_depend_on_the_seed_alone() -> None:
    anchors = DraftAnchors([text(*range(40))], 0, np.arange(40), 40, 2)
    first, again, other = (anchors.sample(16, (0, step)).anchors for step in (3, 3, 4))
    assert first.tolist() == again.tolist() != other.tolist()


def test_a_progress_file_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "x.progress.jsonl"
    path.write_text(json.dumps({"step": 1}) + "\n" + json.dumps({"step": 2}) + '\n{"st')
    progress = ProgressFile(path)
    progress.keep_below(1)
    assert progress.read() == [{"step": 1}]


def test_goes_on_from_earlier_weights(
    model: Path, trained: tuple[Path, TrainResult], tmp_path: Path
) -> None:
    store = texts_in(tmp_path / "texts", model)
    start = trained[0] / "medusa.safetensors"
    result = train(store, model, tmp_path, steps=1, start_from=start)
    assert result.card["validation_top1"][0] > 0.9
    assert result.card["draft_vocabulary"] == trained[1].card["draft_vocabulary"]
    (tmp_path / "cold").mkdir()
    cold = train(store, model, tmp_path / "cold", steps=1)
    assert cold.card["validation_top1"][0] < 0.5


def test_weights_of_another_target_are_no_start(model: Path, tmp_path: Path) -> None:
    other = save_tiny_model("llama", tmp_path / "other", seed=9)
    store = texts_in(tmp_path / "texts", other)
    (tmp_path / "out").mkdir()
    train(store, other, tmp_path / "out", steps=1)
    start = tmp_path / "out" / "medusa.safetensors"
    with pytest.raises(ValueError, match="trained for another model"):
        train(texts_in(tmp_path / "mine", model), model, tmp_path, start_from=start)
