"""Identifies a model by the contents of its files."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dspark.verifier.native.build import cache_dir


def model_digest(files: Iterable[Path], dtype: str) -> str:
    """A hex digest of the files' names and contents and the dtype; the same on every host.

    A file's hash is remembered by path, size and time of change, so a large file is read once.
    """
    known = _HashCache(cache_dir() / "file_hashes.json")
    digest = hashlib.sha256(f"dtype={dtype}".encode())
    for path in files:
        digest.update(f"\n{path.name}={known.hash_of(path)}".encode())
    known.save()
    return digest.hexdigest()


class _HashCache:
    """Hashes of files, kept in a JSON file that may vanish or be damaged without harm."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        try:
            loaded = json.loads(path.read_text())
        except (OSError, ValueError):
            loaded = {}
        self._hashes: dict[str, str] = loaded if isinstance(loaded, dict) else {}

    def hash_of(self, path: Path) -> str:
        status = path.stat()
        key = f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}"
        if key not in self._hashes:
            with path.open("rb") as file:
                self._hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
            self._changed = True
        return self._hashes[key]

    def save(self) -> None:
        if not self._changed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
                json.dump(self._hashes, file)
            os.replace(file.name, self._path)
        except OSError:
            return
