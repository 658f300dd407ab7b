"""Prompts from a user's own files: JSON lines with prompts, or texts to go on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dspark.training.prompt_layout import PromptLayout

PASSAGE_TOKENS = 96
"""Tokens of a text file that become one prompt; as many after them are left to the target."""


def read_prompts(
    path: Path,
    layouts: Sequence[PromptLayout],
    encode: Callable[[str], Sequence[int]],
    max_prompt_tokens: int,
) -> Iterator[tuple[int, ...]]:
    """The prompts of a file as token ids.

    A line of a ``.jsonl`` file is ``{"prompt": text}``, taken as it is, or ``{"user": text}``,
    which the layouts wrap in turn. Any other file is cut into passages. Raises ValueError with the
    line for what is neither.
    """
    if path.suffix == ".jsonl":
        yield from _json_lines(path, layouts, encode, max_prompt_tokens)
    else:
        yield from _passages(encode(path.read_text(encoding="utf-8")))


def _json_lines(
    path: Path,
    layouts: Sequence[PromptLayout],
    encode: Callable[[str], Sequence[int]],
    max_prompt_tokens: int,
) -> Iterator[tuple[int, ...]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                text = _prompt(json.loads(line), layouts[number % len(layouts)])
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            token_ids = tuple(encode(text))
            if 0 < len(token_ids) <= max_prompt_tokens:
                yield token_ids


def _prompt(entry: Any, layout: PromptLayout) -> str:
    if isinstance(entry, dict):
        if isinstance(entry.get("prompt"), str):
            return str(entry["prompt"])
        if isinstance(entry.get("user"), str):
            return layout.prompt(entry["user"])
    raise ValueError('expected {"prompt": "..."} or {"user": "..."}')


def _passages(token_ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(token_ids) - PASSAGE_TOKENS + 1, 2 * PASSAGE_TOKENS):
        yield tuple(token_ids[start : start + PASSAGE_TOKENS])
