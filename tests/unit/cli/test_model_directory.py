"""What a model directory must have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.models import directory as module
from dspark.cli.models.directory import complete_directory, missing_parts
from dspark.cli.progress import Progress

COMPLETE = ("config.json", "tokenizer.json", "model.safetensors")


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


def test_a_complete_directory_is_used_as_it_is(tmp_path: Path) -> None:
    folder = make(tmp_path / "m", *COMPLETE)
    assert complete_directory(folder, Progress(quiet=True)) == folder


@pytest.mark.parametrize("left_out", COMPLETE)
def test_what_is_missing_is_named(tmp_path: Path, left_out: str) -> None:
    folder = make(tmp_path / "m", *(name for name in COMPLETE if name != left_out))
    with pytest.raises(CliError, match=r"safetensors|json") as caught:
        complete_directory(folder, Progress(quiet=True))
    assert left_out.removeprefix("model") in str(caught.value)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    assert missing_parts(make(tmp_path / "m")) == [
        "config.json",
        "a *.safetensors file",
        "tokenizer.json",
    ]


def test_every_shard_of_the_index_must_be_there(tmp_path: Path) -> None:
    folder = make(tmp_path / "m", "config.json", "tokenizer.json", "a.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}))
    assert missing_parts(folder) == ["b.safetensors"]
    index.write_text("[]")
    with pytest.raises(CliError, match="not a weight index"):
        missing_parts(folder)


@pytest.mark.parametrize("names", [("tokenizer.model",), ("vocab.json", "merges.txt")])
def test_another_tokenizer_is_converted_beside_links_to_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    folder = make(tmp_path / "m", "config.json", "model.safetensors", *names)
    calls: list[Path] = []

    def convert(module_name: str, source: Path, target: Path, part: object) -> None:
        calls.append(source)
        (target / "tokenizer.json").write_text("converted")

    monkeypatch.setattr(module, "run_converter", convert)
    made = [complete_directory(folder, Progress(quiet=True)) for _ in range(2)]
    assert made[0] == made[1] != folder
    assert calls == [folder]
    assert (made[0] / "tokenizer.json").read_text() == "converted"
    assert (made[0] / "model.safetensors").resolve() == folder / "model.safetensors"
