"""Every way to name a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.models import prepare as module
from dspark.cli.models.known import DEFAULT_MODEL, KNOWN_MODELS
from dspark.cli.models.prepare import known_entry, prepare
from dspark.cli.progress import Progress

QUIET = Progress(quiet=True)


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Sources of conversions, which write one file instead."""
    sources: list[Path] = []

    def convert(module_name: str, source: Path, target: Path, part: object) -> None:
        sources.append(source)
        (target / "config.json").write_text(source.read_text())

    monkeypatch.setattr(module, "run_converter", convert)
    return sources


def test_a_known_model_is_fetched_and_converted_once(
    converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(known: object, workspace: Path, progress: Progress) -> Path:
        (workspace / "m.gguf").write_text("gguf")
        return workspace / "m.gguf"

    monkeypatch.setattr(module, "fetch_gguf", fetch)
    made = [prepare(DEFAULT_MODEL, QUIET) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].directory == known_entry(KNOWN_MODELS[DEFAULT_MODEL])
    assert len(converted) == 1
    assert [path.name for path in made[0].directory.iterdir()] == ["config.json"]


def test_a_gguf_file_is_keyed_by_its_content(converted: list[Path], tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("a.gguf", "b.gguf", "c.gguf"))
    one.write_text("GGUF x")
    other.write_text("GGUF y")
    same.write_text("GGUF x")
    first = prepare(str(one), QUIET)
    assert first.name == "a"
    assert (first.directory / "config.json").read_text() == "GGUF x"
    assert one.exists()
    assert prepare(str(one), QUIET) == first
    one.write_text("GGUF changed")
    assert prepare(str(one), QUIET).directory != first.directory
    assert prepare(str(other), QUIET).directory != prepare(str(same), QUIET).directory


def test_a_directory_is_served_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")
    prepared = prepare(str(folder) + "/", QUIET)
    assert (prepared.name, prepared.directory.resolve()) == ("my-model", folder)


def test_a_hub_id_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fetch_snapshot", lambda hub_id, progress: tmp_path / hub_id)
    monkeypatch.setattr(module, "complete_directory", lambda path, progress: path)
    prepared = prepare("org/name", QUIET)
    assert (prepared.name, prepared.directory) == ("org/name", tmp_path / "org/name")


@pytest.mark.parametrize("text", ["nothing", "/no/such/dir", "a/b/c", "x.gguf", ""])
def test_anything_else_says_what_would_do(text: str) -> None:
    with pytest.raises(CliError, match=DEFAULT_MODEL):
        prepare(text, QUIET)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_text("x")
    with pytest.raises(CliError, match="gguf"):
        prepare(str(file), QUIET)
