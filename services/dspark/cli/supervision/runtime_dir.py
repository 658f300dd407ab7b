"""A private directory for the sockets of one run, and a directory for its logs."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dspark.cli.models.cache import cache_root

_PREFIX = "dspark-"
_LOCK = "lock"
_KEPT_LOGS = 10


@contextmanager
def runtime_dir() -> Iterator[Path]:
    """A directory that is gone afterwards; leftovers of killed runs go too.

    It is in the temporary directory because the path of a unix socket is limited to 107 bytes.
    """
    _sweep(Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with open(path / _LOCK, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def log_dir() -> Path:
    """A new directory for the logs of this run; the oldest ones of ended runs are deleted."""
    root = cache_root() / "logs"
    path = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    path.mkdir(parents=True, exist_ok=True)
    for old in sorted(entry for entry in root.iterdir() if entry.is_dir())[:-_KEPT_LOGS]:
        if not _is_live(old.name):
            shutil.rmtree(old, ignore_errors=True)
    return path


def _is_live(log_name: str) -> bool:
    """Whether the process whose id ends the name of its log directory still runs."""
    pid = log_name.rpartition("-")[2]
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _sweep(root: Path) -> None:
    """Delete directories of runs that hold their lock no longer."""
    for lock_path in root.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with open(lock_path, "r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_path.parent, ignore_errors=True)
        except OSError:
            continue
