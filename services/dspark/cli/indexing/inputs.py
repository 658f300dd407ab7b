"""The texts of a corpus: files by name, and whatever is text in directories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.text_input import read_text

_USAGE = 2


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that may be text; one that ``is_named`` by itself has to be."""

    path: Path
    is_named: bool

    def read(self) -> str | None:
        """The text; None if there is none. Raises CliError if that is an error."""
        try:
            text = read_text(self.path, str(self.path))
        except CliError:
            if self.is_named:
                raise
            return None
        # Zeros are valid UTF-8, but no part of texts.
        if "\0" not in text:
            return text
        if self.is_named:
            raise CliError(f"{self.path}: is not UTF-8 text", _USAGE)
        return None


def text_files(paths: Sequence[Path]) -> list[TextFile]:
    """The files, and those below the directories in sorted order; raises CliError if one is none.

    Links to directories are not followed.
    """
    files: list[TextFile] = []
    for path in paths:
        if path.is_dir():
            files += [TextFile(each, is_named=False) for each in sorted(_below(path))]
        elif path.exists():
            files.append(TextFile(path, is_named=True))
        else:
            raise CliError(f"{path}: No such file or directory", _USAGE)
    if not files:
        raise CliError(f"{', '.join(map(str, paths))}: there are no files", _USAGE)
    return files


def _below(directory: Path) -> Iterable[Path]:
    return (path for path in directory.rglob("*") if path.is_file())
