"""``dspark eval`` on tiny models: equal weights agree, rounded ones nearly, damaged ones do not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from dspark.cli.__main__ import run
from dspark.cli.benchmark.plan import BenchPrompt
from dspark.cli.evaluation.config import EvalConfig
from dspark.cli.evaluation.inputs import EvalInputs, EvalText
from dspark.cli.evaluation.planning import make_plan
from dspark.cli.evaluation.report import evaluation_report
from dspark.verifier.config import VerifierConfig
from dspark.verifier.evaluation.roles import OTHER, REFERENCE, evaluate
from dspark.verifier.evaluation.workspace import Workspace
from dspark.verifier.model.loader import load_model
from harness.byte_tokenizer import byte_tokenizer
from harness.tiny_models import save_tiny_model

TEXT = "The quick brown fox jumps over the lazy dog. Größe, naïveté, 🙂!\n" * 4
PROMPTS = [
    {"kind": "prose", "user": "", "prompt": "Once upon a time"},
    {"kind": "prose", "user": "", "prompt": "It was a dark and stormy night"},
    {"kind": "code", "user": "", "prompt": "def main() -> None:\n"},
]
TOKENS = 24


def make_model(folder: Path, damage: Callable[[Any], None] | None = None) -> Path:
    """A tiny float32 model of bytes."""
    save_tiny_model("llama", folder, vocab_size=258)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    if damage is not None:
        model = AutoModelForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            damage(model)
        model.save_pretrained(folder)
    return folder


def drop_a_layer(model: Any) -> None:
    model.model.layers[1].mlp.down_proj.weight.zero_()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("eval") / "tiny")


def compared(folder: Path, reference: Path, other: Path) -> dict[str, Any]:
    """The report on two models in float32, on the texts and prompts of these tests."""
    prompts = [BenchPrompt(each["kind"], each["prompt"]) for each in PROMPTS]
    inputs = EvalInputs([EvalText(Path("text"), TEXT)], prompts, None)
    plan = make_plan(inputs, EvalConfig(max_tokens=TOKENS, context=64), reference)
    workspace = Workspace(folder)
    for role, path in ((REFERENCE, reference), (OTHER, other)):
        config = VerifierConfig(model=str(path), kv_tokens=1024)
        loaded = load_model(config, lambda line: None)
        evaluate(role, workspace, plan, loaded, config.block_size, lambda line: None)
    results = [workspace.read_result(role) for role in (REFERENCE, OTHER)]
    return evaluation_report(inputs, *results)


def stock_perplexity(directory: Path, token_ids: list[int], context: int) -> float:
    """By transformers' own forward pass, over windows that share one token."""
    stock = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    losses = []
    for start in range(0, len(token_ids) - 1, context - 1):
        window = torch.tensor(token_ids[start : start + context])
        with torch.no_grad():
            logits = stock(window[None]).logits[0]
        losses += torch.nn.functional.cross_entropy(
            logits[:-1].double(), window[1:], reduction="none"
        ).tolist()
    assert len(losses) == len(token_ids) - 1
    return math.exp(sum(losses) / len(losses))


def test_a_model_agrees_with_itself_and_predicts_as_transformers_says(
    model: Path, tmp_path: Path
) -> None:
    report = compared(tmp_path, model, model)
    (text,) = report["texts"]
    expected = stock_perplexity(model, list(TEXT.encode()), 64)
    assert text["perplexity"]["reference"] == pytest.approx(expected, rel=1e-4)
    assert text["ratio"] == 1
    assert (report["overall"]["same_top"], report["overall"]["identical"]) == (1, 3)
    assert report["overall"]["kl"] == pytest.approx(0, abs=1e-12)


def test_a_damaged_model_is_told_from_a_sound_one(model: Path, tmp_path: Path) -> None:
    damaged = make_model(tmp_path / "damaged", drop_a_layer)
    report = compared(tmp_path, model, damaged)
    assert report["overall"]["same_top"] < 0.9
    assert report["overall"]["kl"] > 0.05
    assert report["overall"]["common_prefix"] < TOKENS
    assert abs(report["texts"][0]["ratio"] - 1) > 0.01


@pytest.mark.slow
def test_the_command_finds_int8_near_fp32(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "prompts.json").write_text(json.dumps(PROMPTS))
    files = [
        f"--{name}={tmp_path / file}"
        for name, file in (("text", "text.txt"), ("prompts", "prompts.json"), ("json", "out.json"))
    ]
    settings = ["--reference=fp32", f"--max-tokens={TOKENS}", "--context=64"]
    assert run(["eval", f"--model={model}", *files, *settings]) == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert (report["reference"]["dtype"], report["other"]["dtype"]) == ("fp32", "int8")
    assert [(row["kind"], row["prompts"]) for row in report["kinds"]] == [("prose", 2), ("code", 1)]
    assert report["texts"][0]["tokens"] == len(TEXT.encode()) - 1
    assert report["texts"][0]["ratio"] == pytest.approx(1, abs=0.03)
    assert report["texts"][0]["ratio"] != 1
    assert 0.9 <= report["overall"]["same_top"] <= 1
    assert 0 < report["overall"]["kl"] < 0.01
    shown = capfd.readouterr()
    assert "overall" in shown.out
    assert "evaluating int8: prompt 3 of 3" in shown.err


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = make_model(tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "nonsense"}))
    (tmp_path / "text.txt").write_text(TEXT)
    command = ["eval", f"--model={broken}", "--text", str(tmp_path / "text.txt")]
    assert run([*command, "--context=64"]) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if "dspark: " in line]
    assert len(errors) == 1
    assert "cannot evaluate bf16: " in errors[0]
