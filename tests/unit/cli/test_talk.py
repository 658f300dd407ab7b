"""``chat`` and ``generate`` with a scripted client."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dspark.cli import chat, generate
from dspark.cli.__main__ import run
from dspark.client import Chunk
from dspark.errors import InternalError, InvalidArgument
from dspark.sampling import SpeculationStats
from harness.completions import make_completion


class FakeStream:
    """Two chunks; after one "interrupt" in the prompt acts as Ctrl-C, "fail" as an error."""

    def __init__(self, text: str) -> None:
        self._interrupts = "interrupt" in text
        self._fails = "fail" in text
        self.completion = make_completion(
            (1, 2, 3, 4), speculation=SpeculationStats(rounds=2, accepted=1), elapsed_ms=100.0
        )

    def __iter__(self) -> Iterator[Chunk]:
        yield Chunk("Hel", (1, 2), 1)
        if self._interrupts:
            raise KeyboardInterrupt
        if self._fails:
            raise InternalError("it broke")
        yield Chunk("lo", (3, 4), 0)

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class FakeClient:
    """Remembers prompts and options."""

    def __init__(self) -> None:
        self.prompts: list[Any] = []
        self.options: list[dict[str, Any]] = []

    def stream(self, prompt: Any, **options: Any) -> FakeStream:
        self.prompts.append(prompt)
        self.options.append(options)
        if "bad" in str(prompt):
            raise InvalidArgument("messages", "no")
        return FakeStream(str(prompt))

    def generate(self, prompt: Any, **options: Any) -> Any:
        self.stream(prompt, **options)
        return make_completion((1, 2))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()

    @contextmanager
    def connected(*_: object) -> Iterator[FakeClient]:
        yield client

    monkeypatch.setattr(chat, "connected", connected)
    monkeypatch.setattr(generate, "connected", connected)
    return client


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))


def test_generate_asks_as_a_user_or_continues_text(
    client: FakeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "hi", "--temperature", "0", "--stop", "a", "--stop", "b"]) == 0
    assert run(["generate", "hi", "--raw", "--no-speculation"]) == 0
    assert client.prompts == [[{"role": "user", "content": "hi"}], "hi"]
    assert (client.options[0]["temperature"], client.options[0]["stop"]) == (0.0, ["a", "b"])
    assert [options["speculation"] for options in client.options] == [None, False]
    assert capsys.readouterr().out == "Hello\nHello\n"


def test_generate_reads_standard_input(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    type_lines(monkeypatch, "from a pipe")
    run(["generate", "-", "--raw"])
    assert client.prompts == ["from a pipe\n"]


def test_generate_json_is_the_whole_completion(
    client: FakeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "hi", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["token_ids"] == [1, 2]
    assert result["finish_reason"] == "length"
    assert result["usage"]["completion_tokens"] == 2


def test_generate_reports_errors_in_one_line(
    client: FakeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "bad"]) == 2
    assert capsys.readouterr().err == "dspark: messages: no\n"


def test_chat_keeps_the_conversation(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "one", "", "two", "/reset", "three", "/exit", "four")
    assert run(["chat", "--system", "be brief"]) == 0
    system = {"role": "system", "content": "be brief"}
    one = {"role": "user", "content": "one"}
    answer = {"role": "assistant", "content": "Hello"}
    assert client.prompts == [
        [system, one],
        [system, one, answer, {"role": "user", "content": "two"}],
        [system, {"role": "user", "content": "three"}],
    ]
    captured = capsys.readouterr()
    assert captured.out == "Hello\nHello\nHello\n"
    assert captured.err.count("[4 tokens, 40.0 tokens/s, 25% from speculation]") == 3


def test_chat_ends_an_answer_on_ctrl_c_and_goes_on(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "interrupt", "next")
    assert run(["chat"]) == 0
    assert client.prompts[1][1] == {"role": "assistant", "content": "Hel"}
    assert "[cancelled]" in capsys.readouterr().err


def test_chat_forgets_a_failed_turn(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "bad", "good")
    assert run(["chat"]) == 0
    assert client.prompts[1] == [{"role": "user", "content": "good"}]
    assert "error: messages: no" in capsys.readouterr().err


def test_summary_of_an_empty_answer() -> None:
    empty = make_completion((), elapsed_ms=0.0)
    assert chat.summary(empty) == "[0 tokens, 0.0 tokens/s, 0% from speculation]"


def test_an_error_after_some_text_starts_a_line(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "fail"]) == 1
    assert capsys.readouterr() == ("Hel\n", "dspark: it broke\n")
    type_lines(monkeypatch, "fail")
    assert run(["chat"]) == 0
    assert capsys.readouterr() == ("Hel\n", "error: it broke\n")


@pytest.mark.parametrize("line", ["/help", "/exit now", "/x"])
def test_chat_knows_its_commands(
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
) -> None:
    type_lines(monkeypatch, line, "/usr/bin is a folder")
    assert run(["chat"]) == 0
    assert [prompt[0]["content"] for prompt in client.prompts] == ["/usr/bin is a folder"]
    assert f"there is no command {line}" in capsys.readouterr().err


def test_chat_says_that_a_line_is_no_text_and_goes_on(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"caf\xff\xfe\nnext\n"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(["chat"]) == 0
    assert client.prompts == [[{"role": "user", "content": "next"}]]
    assert "not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["generate", "\udcff\udcfe"], ["chat", "--system", "\udcff"]]
)
def test_arguments_that_are_no_text_are_refused(
    client: FakeClient, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.endswith("is not UTF-8 text\n")
    assert client.prompts == []


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_is_a_finite_number_above_0(
    client: FakeClient, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["generate", "hi", f"--timeout={value}"])
    assert caught.value.code == 2
    assert "--timeout" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["chat"], ["generate", "-"], ["generate", "-", "--json"]])
def test_output_that_cannot_be_written_ends_the_command_in_one_line(
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    type_lines(monkeypatch, "hi")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("dspark: cannot write to standard output: No space left")
    assert error.count("\n") == 1
