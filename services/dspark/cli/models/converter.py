"""Runs a conversion as a process of its own: torch never enters the command line's process."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.child_output import run_lines
from dspark.cli.progress import Part
from dspark.cli.supervision.launch import launch_command

_PROGRESS = "progress: "
_SHOWN_LINES = 8
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


def run_converter(module: str, source: Path, directory: Path, part: Part) -> None:
    """Run ``python -m module source directory``; raises CliError with its last lines."""
    last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)

    def on_line(line: str) -> None:
        if line.startswith(_PROGRESS):
            part.update(line.removeprefix(_PROGRESS))
        elif line:
            last_lines.append(line)

    command = launch_command(module, [str(source), str(directory)])
    if run_lines(command, on_line, _ENVIRONMENT) != 0:
        raise CliError(f"could not convert {source}:\n" + "\n".join(last_lines))
