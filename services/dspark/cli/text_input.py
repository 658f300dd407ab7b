"""Text from the command line, standard input and files, which may hold bytes that are no UTF-8."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from dspark.cli.failure import CliError


def accept_any_bytes() -> None:
    """Let reading standard input pass bytes that do not decode on, so that no line is lost."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def is_text(text: str) -> bool:
    """Whether every byte it came from was part of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked(text: str, what: str) -> str:
    """The text; raises CliError that names ``what`` if it is not UTF-8."""
    if not is_text(text):
        raise CliError(f"{what} is not UTF-8 text", exit_code=2)
    return text


def read_text(path: Path, what: str) -> str:
    """The text of a file; raises CliError that names ``what`` if it cannot be had."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise CliError(f"{what}: {error.strerror}", exit_code=2) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{what}: is not UTF-8 text", exit_code=2) from error
