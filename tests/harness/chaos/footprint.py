"""What a process holds: resident memory, file descriptors, threads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Footprint:
    """Figures of one process at one time."""

    rss_kib: int
    num_fds: int
    num_threads: int


def footprint(pid: int) -> Footprint:
    """Raises OSError when the process is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Footprint(
        rss_kib=int(values["VmRSS"].split()[0]),
        num_fds=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        num_threads=int(values["Threads"]),
    )
