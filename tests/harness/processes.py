"""Looks at processes from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> dict[str, int]:
    """Pids of the running ``python -m MODULE`` children of a process, by module."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if parent == pid and "-m" in command and is_running(int(entry.name)):
            found[command[command.index("-m") + 1]] = int(entry.name)
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def own_children() -> dict[str, int]:
    return children_of(os.getpid())
