"""Content digests, computed once for an unchanged file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from dspark.cli.models import digest
from dspark.cli.models.digest import remembered_sha256, sha256_of


def test_the_digest_and_its_progress(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 1000)
    seen: list[str] = []
    assert sha256_of(file, seen.append) == hashlib.sha256(b"x" * 1000).hexdigest()
    assert seen == ["100 %"]


def test_an_unchanged_file_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    first = remembered_sha256(file)
    monkeypatch.setattr(digest, "sha256_of", lambda *_: "read again")
    assert remembered_sha256(file) == first
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert remembered_sha256(file) == "read again"


def test_a_broken_memory_is_ignored(tmp_path: Path, cache_dir: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    expected = remembered_sha256(file)
    (memory,) = (cache_dir / "digests").iterdir()
    for garbage in ("", "[]", '{"identity": 1}'):
        memory.write_text(garbage)
        assert remembered_sha256(file) == expected
