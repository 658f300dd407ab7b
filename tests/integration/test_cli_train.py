"""``dspark train`` on a tiny model: from texts that it writes to a source that serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.target_digest import target_digest
from dspark.cli.__main__ import run
from harness.byte_tokenizer import byte_tokenizer
from harness.tiny_models import save_tiny_model

TEMPLATE = "<{user}>"
GENERATED = 600


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "tiny"
    save_tiny_model("llama", folder, vocab_size=258)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def train(model: Path, out: Path, *flags: str, source: str = "ngram") -> int:
    common = ["train", source, "--target", str(model), "--out", str(out)]
    return run([*common, "--prompt-template", TEMPLATE, "--max-answer-tokens", "24", *flags])


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "out"
    assert train(model, out, "--self-generate", str(GENERATED), "--texts-at-once", "8") == 0
    return out


def test_the_table_fits_its_target_and_says_what_it_is(model: Path, trained: Path) -> None:
    card = json.loads((trained / "card.json").read_text())
    assert card["target_digest"] == target_digest(model)
    assert card["ngram"]["answer_tokens"] >= GENERATED
    assert card["ngram"]["alone"]["acceptance_length"] >= 1.0
    config = CandidatesConfig(
        sources=("ngram",), model=str(model), ngram_table=str(trained / "ngram.bin")
    )
    (source,) = build_sources(config)
    assert source.vitals().num_entries == card["ngram"]["contexts"] > 100


def test_a_run_that_goes_on_keeps_what_is_there(
    model: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (trained / "texts" / "tokens.u32").read_bytes()
    assert train(model, trained, "--self-generate", str(2 * GENERATED)) == 0
    after = (trained / "texts" / "tokens.u32").read_bytes()
    assert after.startswith(before) and len(after) > len(before)
    assert train(model, trained, "--self-generate", str(2 * GENERATED)) == 0
    assert (trained / "texts" / "tokens.u32").read_bytes() == after
    assert "held out, with suffix" in capsys.readouterr().out


def test_prompts_of_ones_own_are_answered_once(model: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"user": f"number {n}"}) + "\n" for n in range(30)))
    for _ in range(2):
        assert train(model, tmp_path / "out", "--data", str(prompts)) == 0
        card = json.loads((tmp_path / "out" / "card.json").read_text())
        assert card["ngram"]["texts"] == 30


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "give --data FILE, --self-generate N, or both"),
        (["--data", "nowhere.jsonl"], "--data nowhere.jsonl: No such file"),
        (["--self-generate", "-1"], "must not be below 0"),
        (
            ["--self-generate", "20", "--prompt-template", "nothing"],
            "must have {user} exactly once",
        ),
        (["--self-generate", "1", "--max-answer-tokens", "2"], "too few"),
    ],
)
def test_bad_input_ends_with_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], problem: str
) -> None:
    assert train(model, tmp_path / "out", *flags) in (1, 2)
    assert problem in capsys.readouterr().err


def test_texts_of_another_target_are_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    save_tiny_model("llama", other, vocab_size=258, seed=1)
    byte_tokenizer().save(str(other / "tokenizer.json"))
    assert train(other, trained, "--self-generate", "50") == 1
    assert "holds other texts: target_digest differ" in capsys.readouterr().err


def test_heads_are_trained_and_serve(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    flags = ["--self-generate", str(GENERATED), "--steps", "5", "--threads", "1"]
    assert train(model, out, *flags, source="medusa") == 0
    assert "held out, first guess right by place" in capsys.readouterr().out
    card = json.loads((out / "card.json").read_text())
    assert len(card["medusa"]["validation_top1"]) == 4
    weights = str(out / "medusa.safetensors")
    build_sources(CandidatesConfig(sources=("medusa",), model=str(model), medusa_weights=weights))
    # The texts have more than ngram needs, and will do for it.
    assert train(model, out, "--self-generate", str(GENERATED)) == 0
    assert set(json.loads((out / "card.json").read_text())) >= {"medusa", "ngram"}
    assert run(["train", "report", "--out", str(out)]) == 0
    report = (out / "report.html").read_text()
    assert report.count("<svg") == 2 and "validation_top1" in report


def test_a_block_drafter_is_trained_and_serves(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspark.training.block_trainer.BLOCKS_A_TEXT", 2)
    out = tmp_path / "out"
    flags = ["--self-generate", str(GENERATED), "--steps", "3", "--threads", "1"]
    assert train(model, out, *flags, source="block") == 0
    card = json.loads((out / "card.json").read_text())
    assert len(card["block"]["validation_top1"]) == 6
    weights = str(out / "block.safetensors")
    build_sources(CandidatesConfig(sources=("block",), model=str(model), block_weights=weights))
    # The texts have more than medusa needs, and will do for it.
    assert train(model, out, *flags, source="medusa") == 0
    assert set(json.loads((out / "card.json").read_text())) >= {"medusa", "block"}


def test_a_report_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "report", "--out", str(tmp_path)]) == 1
    assert "train a source first" in capsys.readouterr().err


def test_a_draft_model_is_trained_and_serves(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    common = ["--self-generate", str(GENERATED), "--steps", "3", "--threads", "1"]
    assert train(model, out, *common, "--draft-layers", "3", source="draft") == 1
    assert "draft_layers: must be from 1 to 2" in capsys.readouterr().err
    assert train(model, out, *common, "--draft-layers", "1", source="draft") == 0
    assert "held out, first guess right" in capsys.readouterr().out
    card = json.loads((out / "card.json").read_text())
    assert card["draft"]["layers"] == 1
    assert card["draft"]["alone"]["acceptance_length"] >= 1.0
    draft = out / "draft"
    assert (draft / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    config = CandidatesConfig(sources=("draft",), model=str(model), draft_model=str(draft))
    (source,) = build_sources(config)
    assert source.name == "draft"
    assert run(["train", "report", "--out", str(out)]) == 0
    assert (out / "report.html").read_text().count("<svg") == 2
