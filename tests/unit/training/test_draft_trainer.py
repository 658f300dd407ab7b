from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.target_digest import target_digest
from dspark.training.draft_student import DraftStudent, first_layers_of
from dspark.training.progress_file import ProgressFile
from dspark.training.text_batches import NO_LABEL, TextBatches
from dspark.training.text_store import StoredText, StoreMeta, TextStore
from dspark.training.trainer import TrainResult
from harness import tiny_training
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model
from harness.tiny_training import HIDDEN, counting_texts, kill_at_sample

STEPS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("draft") / "tiny")


texts_in = counting_texts


def train(store: TextStore, model: Path, out: Path, **more: Any) -> TrainResult:
    return tiny_training.train(
        "draft", store, model, out, **{"steps": STEPS, "draft_layers": 1, **more}
    )


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainResult]:
    out = tmp_path_factory.mktemp("trained")
    return out, train(texts_in(out / "texts", model), model, out)


def test_learns_what_the_texts_say(trained: tuple[Path, TrainResult]) -> None:
    out, result = trained
    losses = [e["loss"] for e in ProgressFile(out / "draft.progress.jsonl").read() if "loss" in e]
    assert len(losses) == STEPS
    assert losses[-1] < 0.5 * losses[0]
    assert result.card["validation_top1"] > 0.5
    assert result.card["alone"]["acceptance_length"] > 2
    assert set(result.card) >= {"with_ngram_and_suffix", "error_scale", "layers"}
    assert any("held out, alone" in line for line in result.lines)


def test_what_is_written_fits_its_target_alone(
    model: Path, trained: tuple[Path, TrainResult], tmp_path: Path
) -> None:
    draft = trained[0] / "draft"
    config = json.loads((draft / "config.json").read_text())
    assert config["num_hidden_layers"] == 1
    # The head is the embedding, which is written once, two bytes a number.
    written = SafetensorsFile(draft / "model.safetensors")
    assert "lm_head.weight" not in written
    assert (draft / "model.safetensors").stat().st_size < 3 * VOCAB_SIZE * HIDDEN + 2 * 40_000
    assert config["dspark_target_digest"] == target_digest(model)
    settings: dict[str, Any] = {"sources": ("draft",), "draft_model": str(draft)}
    (source,) = build_sources(CandidatesConfig(model=str(model), **settings))
    assert source.name == "draft"
    other = save_tiny_model("llama", tmp_path / "other", seed=1)
    with pytest.raises(ValueError, match="trained for another model"):
        build_sources(CandidatesConfig(model=str(other), **settings))


def test_goes_on_from_an_earlier_draft_model(
    model: Path, trained: tuple[Path, TrainResult], tmp_path: Path
) -> None:
    store = texts_in(tmp_path / "texts", model)
    start = trained[0] / "draft"
    result = train(store, model, tmp_path, steps=1, start_from=start, draft_layers=2)
    assert result.card["validation_top1"] == pytest.approx(
        trained[1].card["validation_top1"], abs=0.1
    )
    assert result.card["layers"] == 1


def test_a_killed_run_ends_with_the_same_weights(
    model: Path,
    trained: tuple[Path, TrainResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = texts_in(tmp_path / "texts", model)
    steps = kill_at_sample(monkeypatch, TextBatches, 26)
    with pytest.raises(KeyboardInterrupt):
        train(store, model, tmp_path, checkpoint_interval_s=-1.0)
    assert (tmp_path / "draft.checkpoint").exists()
    train(store, model, tmp_path)
    assert steps == [*range(26), *range(25, STEPS)]
    ended, undisturbed = (
        SafetensorsFile(folder / "draft" / "model.safetensors") for folder in (tmp_path, trained[0])
    )
    name = "model.layers.0.mlp.up_proj.weight"
    assert ended.raw(name).tobytes() == undisturbed.raw(name).tobytes()
    assert not (tmp_path / "draft.checkpoint").exists()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_student_of_all_layers_is_the_target(architecture: str, tmp_path: Path) -> None:
    model = save_tiny_model(architecture, tmp_path)
    layers = json.loads((tmp_path / "config.json").read_text())["num_hidden_layers"]
    token_ids = np.array([2, 3, 5, 7, 11])
    student = DraftStudent(first_layers_of(model, layers), token_ids).eval()
    batch = TextBatches([text(1, 9, 3, 4, 11, prompt=2)], 9).batch([0])
    with torch.no_grad():
        logits, labels = student.answer_logits(batch)
        from transformers import AutoModelForCausalLM

        target = AutoModelForCausalLM.from_pretrained(model).eval()
        expected = target(torch.tensor([[1, 9, 3, 4]])).logits[0, 1:, token_ids]
    assert torch.allclose(logits, expected, atol=1e-5)
    assert labels.tolist() == [1, NO_LABEL, 4]
    names = {name for name, parameter in student.named_parameters() if parameter.requires_grad}
    assert names and not any("embed" in name or "lm_head" in name for name in names)


def test_a_student_has_the_first_layers(tmp_path: Path) -> None:
    model = save_tiny_model("gemma3", tmp_path / "gemma3")
    ours, theirs = (first_layers_of(model, layers).state_dict() for layers in (1, 3))
    assert {name for name in theirs if name not in ours} == {
        name for name in theirs if ".layers.1." in name or ".layers.2." in name
    }
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    with pytest.raises(ValueError, match="draft_layers: must be from 1 to 2"):
        first_layers_of(save_tiny_model("llama", tmp_path), 3)


def text(*token_ids: int, prompt: int) -> StoredText:
    return StoredText(np.array(token_ids, dtype=np.uint32), prompt, np.empty((0, 0, 0), np.uint16))


def test_batches_teach_the_answers_alone() -> None:
    texts = TextBatches([text(1, 2, 3, 4, 5, prompt=2), text(6, 7, prompt=0), text(8, prompt=1)], 4)
    assert len(texts) == 2
    batch = texts.batch([0, 1])
    # Of the first text the last four tokens are left, with the prompt's 2 as the first of them.
    assert batch.token_ids.tolist() == [[2, 3, 4], [6, 0, 0]]
    no = NO_LABEL
    assert batch.labels.tolist() == [[3, 4, 5], [7, no, no]]


def test_texts_without_answers_are_refused(model: Path, tmp_path: Path) -> None:
    store = TextStore(tmp_path / "texts", StoreMeta(target_digest(model), VOCAB_SIZE, HIDDEN, ()))
    for _ in range(40):
        store.append([1, 2, 3], 3, np.empty((0, 0, 0), dtype=np.uint16))
    with pytest.raises(ValueError, match="too few or too short"):
        train(store, model, tmp_path)


def test_a_model_that_was_not_trained_here_is_no_start(model: Path, tmp_path: Path) -> None:
    other = save_tiny_model("llama", tmp_path / "other", seed=4)
    path = other / "config.json"
    said = {"dspark_target_digest": target_digest(model)}
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    with pytest.raises(ValueError, match="is no draft model that was trained for this target"):
        train(texts_in(tmp_path / "texts", model), model, tmp_path, start_from=other)
