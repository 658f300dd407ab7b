"""The index command: what it refuses, what it writes, and what serve makes of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dspark.candidates.sources.context_key import context_key
from dspark.candidates.sources.corpus_file import CorpusFile
from dspark.candidates.sources.corpus_info import CorpusInfo
from dspark.cli.__main__ import run
from dspark.cli.failure import CliError
from dspark.cli.indexing import output
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.corpora import check_corpora
from harness.byte_tokenizer import EOS, byte_tokenizer, write_model_dir
from harness.corpora import corpus_file, indexed

VOCAB_SIZE = 300


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DSPARK_REDIS_URL", raising=False)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> Path:
    directory = write_model_dir(folder / "model", byte_tokenizer())
    (directory / "model.safetensors").touch()
    (directory / "config.json").write_text(json.dumps({"vocab_size": VOCAB_SIZE}))
    return directory


@pytest.fixture
def texts(folder: Path) -> Path:
    """Two texts in a tree with things that are none."""
    (folder / "texts" / "b").mkdir(parents=True)
    (folder / "texts" / "b" / "two.txt").write_text("über alles")
    (folder / "texts" / "c.py").write_text(f"def f():{EOS}")
    (folder / "texts" / "a.bin").write_bytes(b"\xff\xfe\x01")
    (folder / "texts" / "zeros").write_bytes(b"abc\0def")
    (folder / "texts" / "dangling").symlink_to("nowhere")
    return folder / "texts"


def index(*arguments: str | Path, model: Path, out: str | None = "x.corpus") -> int:
    target = ["--out", out] if out else []
    flags = ["--name", "python", "--model", str(model), *target]
    return run(["index", *map(str, arguments), *flags])


def one_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if "dspark: " in line]
    assert len(lines) == 1
    return lines[0]


def test_a_directory_becomes_a_corpus_of_its_texts(
    texts: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert index(texts, model=model) == 0
    eos = byte_tokenizer().token_to_id(EOS)
    expected = indexed(list("über alles".encode()), [*b"def f():", eos])
    corpus = CorpusFile(Path("x.corpus"))
    entries = dict(expected.count())
    tokenizer = hashlib.sha256((model / "tokenizer.json").read_bytes()).digest()
    assert corpus.info == CorpusInfo(VOCAB_SIZE, tokenizer, expected.num_tokens, len(entries))
    assert corpus.lookup([context_key(b"", list(b"f()"))]) == [[((*b":", eos), 1)]]
    size = Path("x.corpus").stat().st_size
    assert capsys.readouterr().out.splitlines() == [
        f"corpus:python: 2 files, {expected.num_tokens} tokens, {len(entries)} contexts, "
        f"{size} bytes in x.corpus",
        "left out: 2 files that are no UTF-8 text",
    ]


def test_the_same_texts_give_the_same_bytes(texts: Path, model: Path) -> None:
    assert index(texts, model=model, out="first") == 0
    assert index(texts, model=model, out="second") == 0
    assert Path("first").read_bytes() == Path("second").read_bytes()


def test_a_corpus_is_replaced_and_leaves_nothing_beside_it(
    texts: Path, model: Path, folder: Path
) -> None:
    Path("out").mkdir()
    Path("out/x").write_text("before")
    assert index(texts / "c.py", model=model, out="out/x") == 0
    assert CorpusFile(Path("out/x")).num_entries > 0
    assert list(Path("out").iterdir()) == [Path("out/x")]


def test_a_failure_leaves_the_old_corpus(
    texts: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "write_corpus", full)
    Path("out").mkdir()
    Path("out/x").write_text("before")
    assert index(texts, model=model, out="out/x") == 2
    assert one_error_line(capsys) == "dspark: --out out/x: No space left on device"
    assert Path("out/x").read_text() == "before"
    assert list(Path("out").iterdir()) == [Path("out/x")]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.txt", "--name", "a", "--out", "x"], "none.txt: No such file"),
        (["empty", "--name", "a", "--out", "x"], "empty: there are no files"),
        (["t.txt", "--name", "A b", "--out", "x"], "--name 'A b' must be 1 to 32"),
        (["t.txt", "--name", "a" * 33, "--out", "x"], "must be 1 to 32"),
        (["t.txt", "--name", "a", "--out", "no/x"], "--out no/x: No such file"),
        (["t.txt", "--name", "a", "--out", "empty"], "--out empty: Is a directory"),
        (["t.txt", "--name", "a"], "give --out FILE or --redis-url URL"),
        (
            ["t.txt", "--name", "a", "--out", "x", "--redis-url", "redis://h"],
            "--out and --redis-url exclude each other",
        ),
        (["t.txt", "--name", "a", "--redis-url", "http://h"], "--redis-url: Redis URL must"),
        (["t.txt", "--name", "a", "--redis-url", "unix:///no/socket"], "--redis-url: Error"),
        (["t.txt", "--name", "a", "--out", "x", "--model", "gpt-9"], "'gpt-9' is no known model"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.txt").write_text("text")
    Path("empty").mkdir()
    assert run(["index", *arguments]) == 2
    assert problem in one_error_line(capsys)
    assert sorted(path.name for path in folder.iterdir()) == ["empty", "t.txt"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("bytes", b"\xff", "bytes: is not UTF-8 text"),
        ("zeros", b"a\0b", "zeros: is not UTF-8 text"),
        ("short", b"ab", "the texts are too short"),
        ("empty", b"", "the texts are too short"),
    ],
)
def test_a_named_file_that_gives_nothing_is_refused(
    name: str, content: bytes, problem: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(content)
    assert index(name, model=model) == 2
    assert problem in one_error_line(capsys)
    assert not Path("x.corpus").exists()


def test_a_flag_for_a_file_wins_over_a_variable_for_redis(
    texts: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPARK_REDIS_URL", "unix:///no/socket")
    assert index(texts, model=model) == 0
    assert index(texts, model=model, out=None) == 2


def services(*corpus: str, **more: str) -> ServicesConfig:
    return ServicesConfig(sources=("suffix", "corpus:python"), corpus=corpus, **more)


@pytest.fixture
def prepared(texts: Path, model: Path) -> Iterator[PreparedModel]:
    assert index(texts, model=model) == 0
    yield PreparedModel("model", model)


def test_serve_takes_what_index_made(prepared: PreparedModel) -> None:
    check_corpora(services("python=x.corpus"), prepared)
    check_corpora(services(redis_url="redis://h"), prepared)
    check_corpora(ServicesConfig(), prepared)


def test_serve_refuses_what_it_cannot_use(prepared: PreparedModel) -> None:
    corpus_file(Path("other"), [1, 2, 3], vocab_size=VOCAB_SIZE)
    for config, problem in (
        (services(), r"^--sources corpus:python: give --corpus python=FILE, or --redis-url"),
        (services("python=none"), "^--corpus python=none: No such file"),
        (services("python=texts/c.py"), "^--corpus python=texts/c.py: is no corpus"),
        (services("python=other"), "^--corpus python=other: is made with another tokenizer"),
    ):
        with pytest.raises(CliError, match=problem) as caught:
            check_corpora(config, prepared)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            ["--sources", "suffix", "--corpus", "python=f"],
            "--corpus: 'python' has a file, but corpus:python is none",
        ),
        (["--corpus", "f"], "--corpus: 'f' must be NAME=FILE"),
        (["--sources", "corpus:A"], "--sources: the corpus 'A' must be 1 to 32"),
    ],
)
def test_serve_names_the_flag_of_a_bad_corpus(
    flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *flags, "--model", "gpt-9"]) == 2
    assert problem in one_error_line(capsys)
