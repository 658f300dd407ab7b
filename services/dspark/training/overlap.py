"""Keeps the prompts of an evaluation out of the training texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

GRAM_WORDS = 6


def reserved_texts(path: Path) -> list[str]:
    """The prompts of a benchmark: a JSON list of {"user": ...} or {"prompt": ...}.

    Raises OSError, and ValueError for anything else.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError('must be a list of {"user": "..."} or {"prompt": "..."}')
    return [str(entry.get("user", entry.get("prompt", ""))) for entry in entries]


class Overlap:
    """Finds texts that share a run of ``GRAM_WORDS`` words with one of the reserved texts."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._grams = {gram for text in reserved for gram in _grams(text)}

    def touches(self, text: str) -> bool:
        return any(gram in self._grams for gram in _grams(text))


def _grams(text: str) -> Iterable[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return zip(*(words[start:] for start in range(GRAM_WORDS)), strict=False)
