"""Keeps the prompts of an evaluation out of the training texts."""

from __future__ import annotations

import re
from collections.abc import Iterable

GRAM_WORDS = 6


class Overlap:
    """Finds texts that share a run of ``GRAM_WORDS`` words with one of the reserved texts."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._grams = {gram for text in reserved for gram in _grams(text)}

    def touches(self, text: str) -> bool:
        return any(gram in self._grams for gram in _grams(text))


def _grams(text: str) -> Iterable[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return zip(*(words[start:] for start in range(GRAM_WORDS)), strict=False)
