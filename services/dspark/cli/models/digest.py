"""Content digests of large files, remembered by path, size and modification time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from dspark.cli.models.cache import cache_root

_CHUNK = 4 * 1024 * 1024


def sha256_of(path: Path, on_progress: Callable[[str], None] = lambda _: None) -> str:
    """The file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    total = max(path.stat().st_size, 1)
    done = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            on_progress(f"{done * 100 // total} %")
    return digest.hexdigest()


def remembered_sha256(path: Path, on_progress: Callable[[str], None] = lambda _: None) -> str:
    """Like ``sha256_of``, without reading a file that has not changed since the last call."""
    real = path.resolve()
    stat = real.stat()
    identity = [str(real), stat.st_size, stat.st_mtime_ns, stat.st_ino]
    key = hashlib.sha256(str(real).encode()).hexdigest()[:32]
    memory = cache_root() / "digests" / f"{key}.json"
    try:
        known = json.loads(memory.read_text())
        if known["identity"] == identity:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256_of(real, on_progress)
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps({"identity": identity, "sha256": digest}))
    return digest
