"""The command line as a whole."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dspark.cli import serve
from dspark.cli.__main__ import run
from dspark.cli.models.known import DEFAULT_MODEL, KNOWN_MODELS
from dspark.cli.models.prepare import known_entry


@pytest.mark.parametrize(
    "command", ["serve", "chat", "generate", "bench", "eval", "index", "models", "simulate"]
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run([command, "--help"])
    assert caught.value.code == 0
    assert command in capsys.readouterr().out


def test_models_lists_names_licences_and_presence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    absent = capsys.readouterr().out
    assert DEFAULT_MODEL in absent
    assert "Apache-2.0" in absent
    known_entry(KNOWN_MODELS[DEFAULT_MODEL]).mkdir(parents=True)
    assert run(["models", "list"]) == 0
    assert capsys.readouterr().out != absent


def test_an_unknown_model_is_refused_with_the_known_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["models", "fetch", "gpt-9"]) == 2
    assert run(["serve", "--model", "gpt-9", "--http-port", "0", "--grpc-port", "0"]) == 2
    assert capsys.readouterr().err.count(DEFAULT_MODEL) == 2


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port"])
def test_a_taken_port_ends_serve_before_the_model_is_looked_at(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"--http-port": "--grpc-port", "--grpc-port": "--http-port"}[flag]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", flag, port, other, "0", "--model", "gpt-9"]) == 2
    error = capsys.readouterr().err
    assert flag in error
    assert "gpt-9" not in error


def test_base_url_and_embedded_exclude_each_other() -> None:
    assert run(["generate", "hi", "--base-url", "127.0.0.1:1", "--embedded"]) == 2


def test_a_named_server_that_does_not_answer_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["generate", "hi", "--base-url", "127.0.0.1:1"]) == 1
    assert "no DSpark server is ready at 127.0.0.1:1" in capsys.readouterr().err


def test_settings_come_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSPARK_HTTP_PORT", "eighty")
    assert run(["serve"]) == 2
    assert "DSPARK_HTTP_PORT" in capsys.readouterr().err


def test_one_port_for_both_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["serve", "--http-port", "9000", "--grpc-port", "9000", "--model", "gpt-9"]) == 2
    error = capsys.readouterr().err
    assert "--http-port and --grpc-port" in error
    assert "gpt-9" not in error


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--kv-tokens", "0"),
        ("--kv-tokens", "-5"),
        ("--kv-tokens", "10"),
        ("--block-size", "0"),
        ("--max-num-seqs", "0"),
        ("--num-draft-tokens", "-1"),
        ("--max-model-len", "-1"),
        ("--max-model-len", "65537"),
        ("--sources", "suffix,suffix"),
    ],
)
@pytest.mark.parametrize("command", [["serve"], ["generate", "hi", "--embedded"]])
def test_a_bad_setting_is_one_line_with_its_flag(
    command: list[str], flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, f"{flag}={value}", "--model", "gpt-9"]) == 2
    error = capsys.readouterr().err
    assert flag in error
    assert error.count("\n") == 1
    assert "gpt-9" not in error


@pytest.mark.parametrize("config", ["{}", '{"text_config": {}}'])
@pytest.mark.parametrize(
    "command",
    [["serve", "--http-port=0", "--grpc-port=0"], ["generate", "hi", "--embedded"]],
)
def test_a_length_that_the_model_has_no_positions_for_is_one_line_before_anything_starts(
    command: list[str], config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    (tmp_path / "config.json").write_text(config.replace("{}", '{"max_position_embeddings": 512}'))
    assert run([*command, "--model", str(tmp_path), "--max-model-len", "513"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--max-model-len 513" in error
    assert "512" in error


@pytest.mark.parametrize("content", [b"", b"noise", b"GGUF and noise"])
def test_a_file_that_is_no_gguf_is_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    ports = ["--http-port", "0", "--grpc-port", "0"]
    assert run(["serve", "--model", str(file), *ports]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "dspark: " in line]
    assert len(errors) == 1
    assert str(file) in errors[0]


def test_the_greeting_has_addresses_that_can_be_reached() -> None:
    text = serve.greeting("m", "0.0.0.0", 8000, 50051)
    assert "http://127.0.0.1:8000/v1/chat/completions" in text
    assert "0.0.0.0" not in text
    assert "[::1]:50051" in serve.greeting("m", "::", 8000, 50051)
