"""The model digest follows contents, not places or times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dspark.verifier.model.digest import model_digest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSPARK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_equal_contents_in_another_place(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "model.safetensors", "weights")
    second = write(tmp_path / "b" / "model.safetensors", "weights")
    assert model_digest([first], "bfloat16") == model_digest([second], "bfloat16")


def test_contents_names_and_dtype_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors", "weights")
    digests = {model_digest([path], "bfloat16"), model_digest([path], "float32")}
    digests.add(model_digest([write(tmp_path / "other.safetensors", "weights")], "bfloat16"))
    digests.add(model_digest([write(tmp_path / "c" / path.name, "weightz")], "bfloat16"))
    assert len(digests) == 4


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors", "weights")
    before = model_digest([path], "bfloat16")
    write(path, "weightz")
    os.utime(path, ns=(1, 1))
    assert model_digest([path], "bfloat16") != before


def test_a_damaged_cache_is_no_harm(tmp_path: Path, own_cache: Path) -> None:
    path = write(tmp_path / "model.safetensors", "weights")
    before = model_digest([path], "bfloat16")
    for damage in ("{", "[]", '"text"'):
        (own_cache / "file_hashes.json").write_text(damage)
        assert model_digest([path], "bfloat16") == before
