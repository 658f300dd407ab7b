"""The eval command: what it refuses, what it plans, what it reports."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors

from dspark.cli import eval_command
from dspark.cli.__main__ import run
from dspark.cli.benchmark.plan import BenchPrompt
from dspark.cli.evaluation.config import EvalConfig
from dspark.cli.evaluation.inputs import EvalInputs, EvalText
from dspark.cli.evaluation.planning import make_plan
from dspark.cli.evaluation.report import evaluation_report
from dspark.cli.failure import CliError
from dspark.verifier.evaluation.agreement import Agreement
from dspark.verifier.evaluation.plan import PromptWork
from dspark.verifier.evaluation.results import EvaluationResult, ModelRun, TextScore
from harness.byte_tokenizer import EOS, byte_tokenizer, write_model_dir

LIMIT = 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "model", byte_tokenizer())


def model_folder(folder: Path, tokenizer: Tokenizer, vocab_size: int = 258) -> Path:
    write_model_dir(folder, tokenizer)
    (folder / "model.safetensors").touch()
    config = {"max_position_embeddings": LIMIT, "vocab_size": vocab_size}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def with_beginning(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a token before any text and none after it."""
    template = {"single": f"{EOS} $A", "special_tokens": [(EOS, tokenizer.token_to_id(EOS))]}
    tokenizer.post_processor = processors.TemplateProcessing(**template)
    return tokenizer


def inputs(*prompts: BenchPrompt, text: str = "some text") -> EvalInputs:
    return EvalInputs([EvalText(Path("text.txt"), text)], prompts, Path("p.json"))


def one_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if "dspark: " in line]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "give --text FILE, --prompts FILE.json, or both"),
        (["--text", "missing.txt"], "--text missing.txt: No such file"),
        (["--text", "empty.txt"], "--text empty.txt: is empty"),
        (["--text", "binary.txt"], "--text binary.txt: is not UTF-8"),
        (["--text", "."], "--text .: Is a directory"),
        (["--prompts", "missing.json"], "--prompts missing.json: No such file"),
        (["--prompts", "text.txt"], "--prompts text.txt: "),
        (["--prompts", "none.json"], "--prompts none.json: must be a list"),
        (["--prompts", "half.json"], "--prompts half.json: entry 0 is not UTF-8"),
        (["--text", "text.txt", "--json", "no/out"], "--json no/out: No such file"),
        (["--json", "no/out"], "--json no/out: No such file"),
        (["--text", "text.txt", "--weight-dtype", "bf16"], "--reference are both bf16"),
        (["--text", "text.txt", "--weight-dtype", "int9"], "--weight-dtype int9 must be one of"),
        (["--text", "text.txt", "--reference", "auto"], "--reference auto must be one of bf16"),
        (["--text", "text.txt", "--max-tokens", "0"], "--max-tokens must be at least 1"),
        (["--text", "text.txt", "--context", "1"], "--context must be at least 2"),
    ],
)
def test_bad_input_is_one_line_before_the_model_is_looked_at(
    flags: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    Path("text.txt").write_text("some text")
    Path("binary.txt").write_bytes(b"\xff\xfe\x00")
    Path("none.json").write_text("[]")
    Path("half.json").write_text('[{"prompt": "\\ud800"}]')
    assert run(["eval", *flags, "--model", "gpt-9"]) == 2
    assert problem in one_error_line(capsys)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            ["--text", "short.txt", "--context", "32"],
            "--text short.txt: is a text of less than 2 tokens",
        ),
        (["--text", "text.txt", "--context", "65"], "--context 65: the model takes"),
        (["--prompts", "empty.json"], "--prompts empty.json: entry 1 is empty"),
        (["--prompts", "long.json"], "--prompts long.json: entry 0 has 64 tokens"),
    ],
)
def test_what_does_not_fit_the_model_is_one_line_before_it_is_loaded(
    flags: list[str],
    problem: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(eval_command, "run_sides", None)
    Path("short.txt").write_text("a")
    Path("text.txt").write_text("some text")
    Path("empty.json").write_text('[{"prompt": "a"}, {"prompt": ""}]')
    Path("long.json").write_text(json.dumps([{"prompt": "a" * LIMIT}]))
    assert run(["eval", *flags, "--model", str(model)]) == 2
    assert problem in one_error_line(capsys)


def test_a_plan_holds_texts_and_prompts_as_tokens(model: Path) -> None:
    prompts = (BenchPrompt("k", f"a{EOS}"), BenchPrompt("k", "b" * (LIMIT - 3)))
    plan = make_plan(inputs(*prompts), EvalConfig(max_tokens=9, context=16), model)
    assert plan.texts == [list(b"some text")]
    assert (plan.prefix, plan.context) == ([], 16)
    assert plan.prompts == [PromptWork([97, 256], 9), PromptWork([98] * (LIMIT - 3), 3)]
    assert plan.longest == LIMIT


def test_texts_begin_with_what_the_tokenizer_puts_before_them(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", with_beginning(byte_tokenizer()))
    plan = make_plan(inputs(BenchPrompt("k", "a")), EvalConfig(context=16), folder)
    assert plan.prefix == [256]
    assert plan.texts == [list(b"some text")]
    assert plan.prompts[0].token_ids == [97]
    with pytest.raises(CliError, match="--context must be at least 3"):
        make_plan(inputs(), EvalConfig(context=2), folder)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", byte_tokenizer(), vocab_size=100)
    with pytest.raises(CliError, match=r"gives token 120 of a model with 100"):
        make_plan(inputs(text="xx"), EvalConfig(context=16), folder)


def test_a_broken_tokenizer_is_refused(model: Path) -> None:
    (model / "tokenizer.json").write_text("{")
    with pytest.raises(CliError, match=r"tokenizer\.json: "):
        make_plan(inputs(), EvalConfig(context=16), model)


def result(dtype: str, log_probability: float, *agreements: Agreement) -> EvaluationResult:
    scores = [TextScore(log_probability, 10)]
    return EvaluationResult(ModelRun(dtype, "k", "strict", "cpu"), scores, agreements=agreements)


def report(log_probability: float = -30.0) -> dict[str, Any]:
    prompts = [BenchPrompt(kind, "p") for kind in ("chat", "code", "chat")]
    agreements = (
        Agreement(num_tokens=10, num_same_top=10, kl_sum=0.1, common_prefix=10),
        Agreement(num_tokens=4, num_same_top=2, kl_sum=2.0, common_prefix=1),
        Agreement(num_tokens=30, num_same_top=20, kl_sum=0.3, common_prefix=6),
    )
    reference, other = result("bf16", -20.0), result("int8", log_probability, *agreements)
    return evaluation_report(inputs(*prompts), reference, other)


def test_perplexities_and_their_ratio() -> None:
    (text,) = report()["texts"]
    assert (text["file"], text["tokens"]) == ("text.txt", 10)
    assert text["perplexity"]["reference"] == pytest.approx(math.exp(2))
    assert text["perplexity"]["other"] == pytest.approx(math.exp(3))
    assert text["ratio"] == pytest.approx(math.e)


def test_kinds_and_all_are_means_over_positions_and_over_prompts() -> None:
    figures = report()
    assert [row["kind"] for row in figures["kinds"]] == ["chat", "code"]
    chat, code = figures["kinds"]
    assert (chat["prompts"], chat["tokens"], chat["identical"]) == (2, 40, 1)
    assert (chat["same_top"], chat["common_prefix"], chat["length"]) == (0.75, 8, 20)
    assert chat["kl"] == pytest.approx(0.01)
    assert (code["same_top"], code["kl"], code["identical"]) == (0.5, 0.5, 0)
    assert figures["overall"]["same_top"] == pytest.approx(32 / 44)
    assert [row["tokens"] for row in figures["prompts"]] == [10, 4, 30]


def test_results_are_shown_and_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("some text")
    (tmp_path / "p.json").write_text('[{"kind": "[chat]", "prompt": "p"}]')
    agreement = Agreement(num_tokens=8, num_same_top=6, kl_sum=math.nan, common_prefix=3)
    sides = (result("bf16", -20.0), result("int8", -1e6, agreement))
    monkeypatch.setattr(eval_command, "run_sides", lambda *_: sides)
    files = ["--text", str(tmp_path / "text.txt"), "--prompts", str(tmp_path / "p.json")]
    command = ["eval", "--model", str(model), *files, "--context", "32", "--json"]
    assert run([*command, str(tmp_path / "out.json")]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["model"], written["context"], written["max_tokens"]) == ("model", 32, 128)
    assert written["texts"][0]["ratio"] is None
    assert written["overall"]["kl"] is None
    assert written["overall"]["same_top"] == 0.75
    shown = capsys.readouterr().out
    assert "75.00%" in shown
    assert "[chat]" in shown
    assert "7.389" in shown


def test_a_check_of_the_output_leaves_no_file_behind(tmp_path: Path) -> None:
    assert run(["eval", "--json", str(tmp_path / "out.json")]) == 2
    assert not (tmp_path / "out.json").exists()
