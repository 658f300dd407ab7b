"""The cache of prepared models: each a directory that appears whole or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Part of each entry's name: entries made by another form of preparation are not used.
_FORM = "f1"


def cache_root() -> Path:
    """DSPARK_CACHE_DIR, else ~/.cache/dspark."""
    return Path(os.environ.get("DSPARK_CACHE_DIR") or Path.home() / ".cache" / "dspark")


def entry_path(name: str, digest: str) -> Path:
    """Where the model of this name and content digest lies once it is prepared."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return cache_root() / "models" / f"{safe}-{digest[:16]}-{_FORM}"


@contextmanager
def building(entry: Path) -> Iterator[Path | None]:
    """Yield an empty directory that becomes ``entry`` when the block succeeds.

    Yields None if the entry exists, also when another process made it while this one waited.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    with open(entry.parent / f"{entry.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if entry.is_dir():
            yield None
            return
        for stale in entry.parent.glob(f".{entry.name}.*"):
            shutil.rmtree(stale, ignore_errors=True)
        workspace = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=entry.parent))
        try:
            yield workspace
            workspace.chmod(0o755)
            workspace.rename(entry)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
