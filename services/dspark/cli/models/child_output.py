"""Reads what a child process prints, line by line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from dspark.cli.progress import Part

_PROGRESS = "progress: "


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


def run_part(
    command: Sequence[str], part: Part, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run the command and show its progress; returns its exit code and its last other line.

    That says why it failed, if it did: an exception's own line is the last one of its traceback.
    """
    last = "it says no more"

    def on_line(line: str) -> None:
        nonlocal last
        if line.startswith(_PROGRESS):
            part.update(line.removeprefix(_PROGRESS))
        elif line:
            last = line

    return run_lines(command, on_line, environment), last
