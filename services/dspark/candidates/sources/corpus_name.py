"""What corpora and their sources are called, and which files hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

KIND = "corpus"
_NAME = re.compile(r"[a-z0-9_-]{1,32}")


def checked_name(name: str) -> str:
    """The name. Raises ValueError if it is none: names are labels of metrics and parts of keys."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} must be 1 to 32 of the characters a-z, 0-9, _ and -")
    return name


def source_name(name: str) -> str:
    """What the source of the corpus is called: ``corpus:NAME``."""
    return f"{KIND}:{name}"


def names_of(sources: Sequence[str]) -> list[str]:
    """The corpora among the names of sources."""
    parts = [source.partition(":") for source in sources]
    return [name for kind, colon, name in parts if colon and kind == KIND]


def corpus_files(entries: Sequence[str]) -> dict[str, Path]:
    """Name to file, from ``NAME=FILE`` each. Raises ValueError for what is not of this form."""
    files: dict[str, Path] = {}
    for entry in entries:
        name, _, file = entry.partition("=")
        if not file:
            raise ValueError(f"{entry!r} must be NAME=FILE")
        if checked_name(name) in files:
            raise ValueError(f"{name!r} appears twice")
        files[name] = Path(file).expanduser()
    return files
