"""What cannot work ends ``dspark serve`` before a model is fetched or a service is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redis import Redis

from dspark.cli import serve
from dspark.cli.__main__ import run
from dspark.cli.serve_config import ServeConfig
from dspark.cli.supervision import preflight, redis_check
from harness.byte_tokenizer import byte_tokenizer, write_model_dir
from harness.tiny_drafts import save_draft
from harness.tiny_models import save_tiny_model

PORTS = ["--http-port", "0", "--grpc-port", "0"]
ABSENT = ["--model", "gpt-9"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No service may start here."""

    def start(*_: object) -> None:
        raise AssertionError("services start")

    monkeypatch.setattr(serve, "running_services", start)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> Path:
    """A target of 300 token ids and 2 layers, with a tokenizer of bytes."""
    directory = write_model_dir(folder / "model", byte_tokenizer())
    return save_tiny_model("llama", directory, vocab_size=300)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--sources zz", "--sources: unknown zz; known are block, draft, medusa, ngram, recycle"),
        ("--sources corpus:A", "--sources: the corpus 'A' must be 1 to 32 of"),
        ("--draft-model /nowhere", "--draft-model /nowhere: --sources must name draft"),
        ("--sources draft --draft-model /nowhere", "--draft-model /nowhere: no such file"),
        ("--ngram-table /nowhere", "--ngram-table /nowhere: no such file"),
        ("--sources recycle --ngram-table x", "--ngram-table x: --sources must name ngram"),
        ("--redis-url nonsense", "--redis-url must be redis://HOST:PORT/DB, rediss://"),
        ("--redis-url redis://:secret", "--redis-url must be redis://HOST:PORT/DB"),
        ("--kernels magic", "--kernels: invalid choice: 'magic' (choose from 'auto', 'native'"),
        ("--attention magic", "--attention-backend: invalid choice: 'magic' (choose from 'auto'"),
        ("--device toaster", "--device must be auto, cpu, cuda or cuda:N, not 'toaster'"),
        ("--decision-log /nowhere/x", "--decision-log /nowhere/x: No such file"),
        ("--record-calls .", "--record-calls .: Is a directory"),
        ("--batch-share 1.5", "--batch-share must be above 0 and below 1"),
        ("--ageing-s 0", "--ageing-s must be above 0"),
        ("--max-waiting 0", "--max-waiting must be above 0"),
        ("--max-queued-requests many", "--max-queued-requests: invalid int value: 'many'"),
        ("--interactive-max-wait-s -1", "--interactive-max-wait-s must be 0 or more"),
        ("--max-body-bytes 0", "--max-body-bytes must be at least 1"),
        ("--max-choices -1", "--max-choices must be at least 1"),
        ("--grammar-cache 0", "--grammar-cache must be at least 1"),
        ("--draft-kv-tokens 1", "--draft-kv-tokens: must be at least 256"),
    ],
)
def test_a_wrong_flag_is_one_line_before_the_model_is_looked_at(
    flags: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = run(["serve", *PORTS, *ABSENT, *flags.split()])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    error = error_line(capsys)
    assert problem in error
    assert "gpt-9" not in error and "secret" not in error


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("DSPARK_SOURCES", "zz", "--sources: unknown zz"),
        ("DSPARK_MAX_WAITING", "many", "DSPARK_MAX_WAITING='many'"),
        ("DSPARK_MUTE_AFTER", "often", "DSPARK_MUTE_AFTER='often'"),
        ("DSPARK_MUTE_AFTER", "0", "--mute-after must be above 0"),
        ("DSPARK_LOG_LEVEL", "LOUD", "--log-level 'LOUD' is no level"),
    ],
)
def test_so_is_a_wrong_variable_of_any_service(
    variable: str,
    value: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert run(["serve", *PORTS, *ABSENT]) == 2
    assert problem in error_line(capsys)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--early-pruning 9", "--early-pruning 9 must be below the 2 layers of model"),
        ("--sources draft", "--sources: draft cannot run: no draft ships for this target"),
        ("--sources draft --draft-model bare", "--draft-model bare cannot run: bare has no config"),
        ("--ngram-table text", "--ngram-table text cannot run: text is no n-gram table"),
        ("--sources medusa --medusa-weights text", "--medusa-weights text cannot run: text is no"),
        ("--sources block --block-weights text", "--block-weights text cannot run: text is no"),
        ("--sources block --block-weights bare", "--block-weights bare cannot be read: Is a dir"),
    ],
)
def test_weights_that_are_none_are_one_line(
    flags: str, problem: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bare").mkdir()
    Path("text").write_text("no weights at all")
    assert run(["serve", *PORTS, "--model", str(model), *flags.split()]) == 2
    assert problem in error_line(capsys)


def test_a_draft_model_of_another_vocabulary_is_one_line(
    model: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = save_draft(model, folder / "draft", "llama", vocab_size=301, seed=1)
    capsys.readouterr()
    flags = ["--sources", "draft", "--draft-model", str(draft)]
    assert run(["serve", *PORTS, "--model", str(model), *flags]) == 2
    problem = f"{draft} has 301 token ids, and the target 300"
    assert f"--draft-model {draft} cannot run: {problem}" in error_line(capsys)


def test_a_draft_model_that_fits_is_let_pass(model: Path, folder: Path) -> None:
    draft = save_draft(model, folder / "draft", "llama", vocab_size=300, seed=1)
    flags = ["--sources", "draft", "--draft-model", str(draft)]
    with pytest.raises(AssertionError, match="services start"):
        run(["serve", *PORTS, "--model", str(model), *flags])


def test_a_damaged_configuration_of_the_model_is_one_line(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in ("{", "[]", json.dumps({"text_config": 3})):
        (model / "config.json").write_text(content)
        assert run(["serve", *PORTS, "--model", str(model), "--early-pruning", "1"]) == 2
        assert "config.json is not a model's configuration" in error_line(capsys)


def test_a_redis_that_does_not_answer_is_a_warning_only(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--redis-url", "redis://:secret@127.0.0.1:1/0"]
    with pytest.raises(AssertionError, match="services start"):
        run(["serve", *PORTS, "--model", str(model), *flags])
    error = error_line(capsys)
    assert error.startswith("warning: --redis-url: it does not answer: ")
    assert "serving without it until it answers" in error
    assert "secret" not in error


def test_a_redis_that_answers_is_not_talked_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redis, "ping", lambda client: True)
    assert redis_check.silence_of("redis://127.0.0.1:1") == ""


def test_what_serve_wires_itself_is_not_taken_from_variables() -> None:
    """A variable for services that start one by one does not stop those that start together."""
    config = ServeConfig()
    preflight.check_settings(config, {"DSPARK_VERIFIER": "no address", "DSPARK_CANDIDATES": ":"})
