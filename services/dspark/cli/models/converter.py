"""Runs a conversion as a process of its own: torch never enters the command line's process."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.progress import Part
from dspark.cli.supervision.launch import launch_command

PREFIX = "progress: "


def run_converter(module: str, source: Path, directory: Path, part: Part) -> None:
    """Run ``python -m module source directory``; raises CliError with its last lines."""
    process = subprocess.Popen(
        launch_command(module, [str(source), str(directory)]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
    )
    last_lines: deque[str] = deque(maxlen=8)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith(PREFIX):
                part.update(line.removeprefix(PREFIX).strip())
            elif line.strip():
                last_lines.append(line.rstrip())
        code = process.wait()
    finally:
        process.kill()
        process.wait()
    if code != 0:
        raise CliError(f"could not convert {source}:\n" + "\n".join(last_lines))
