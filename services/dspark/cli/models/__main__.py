"""``python -m dspark.cli.models MODEL LINK``: prepares a model, then points the link at it.

For containers: services read the link, whatever the model. It needs nothing of the other commands.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress


def point(link: Path, directory: Path) -> None:
    """Make ``link`` lead to ``directory``, at once for whoever reads it.

    The link is relative where both lie under one folder, so that a volume can be mounted elsewhere.
    """
    target = directory.resolve()
    folder = link.parent.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if target.is_relative_to(folder):
        target = target.relative_to(folder)
    new = folder / f".{link.name}.{os.getpid()}"
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(folder / link.name)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m dspark.cli.models",
        description="Prepares a model for services to read.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help=f"known name (such as {DEFAULT_MODEL}), directory, FILE.gguf or hub id",
    )
    parser.add_argument("link", metavar="LINK", type=Path, help="symbolic link to make or move")
    arguments = parser.parse_args(argv)
    try:
        prepared = prepare(arguments.model, Progress())
    except CliError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    point(arguments.link, prepared.directory)
    print(f"{arguments.link} -> {prepared.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
