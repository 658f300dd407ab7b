"""A training's course as lines of JSON, for ``dspark train report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SUFFIX = ".progress.jsonl"


class ProgressFile:
    """One object a line, each with the ``step`` after which it was written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def keep_below(self, step: int) -> None:
        """Drop what a run wrote after the step that it goes on from."""
        kept = [entry for entry in self.read() if entry["step"] <= step]
        self._path.write_text("".join(json.dumps(entry) + "\n" for entry in kept))

    def read(self) -> list[dict[str, Any]]:
        """All entries; a line that a killed writer left half is passed over."""
        entries: list[dict[str, Any]] = []
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    continue
        return entries
