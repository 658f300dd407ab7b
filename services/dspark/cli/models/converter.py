"""Runs a conversion as a process of its own: torch never enters the command line's process."""

from __future__ import annotations

from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.child_output import run_part
from dspark.cli.progress import Part
from dspark.cli.supervision.launch import launch_command

_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


def run_converter(module: str, source: Path, directory: Path, part: Part) -> None:
    """Run ``python -m module source directory``; raises CliError with its last line."""
    command = launch_command(module, [str(source), str(directory)])
    code, last = run_part(command, part, _ENVIRONMENT)
    if code != 0:
        raise CliError(f"could not convert {source}: {last}", exit_code=2)
