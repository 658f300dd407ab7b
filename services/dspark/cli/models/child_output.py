"""Reads what a child process prints, line by line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence


def run_lines(
    command: Sequence[str],
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run the command and pass on each line of its stdout and stderr; returns its exit code.

    The process is killed when the caller is interrupted.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | (environment or {}),
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                on_line(line.rstrip())
            return process.wait()
        finally:
            process.kill()
