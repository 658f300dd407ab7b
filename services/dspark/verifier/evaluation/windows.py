"""Cuts a text into windows in which every token is scored once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens that are computed together; those from ``num_context`` on are scored."""

    token_ids: tuple[int, ...]
    num_context: int

    @property
    def num_scored(self) -> int:
        return len(self.token_ids) - self.num_context


def windows(text: Sequence[int], prefix: Sequence[int], size: int) -> Iterator[Window]:
    """Windows of at most ``size`` tokens.

    Each begins with ``prefix`` (what the tokenizer puts before any text) and with the last token
    of the window before it. So all tokens are scored but the first, and that one too if there is
    a prefix. Raises ValueError if a window has no room for a token to score.
    """
    if size < len(prefix) + 2:
        raise ValueError(f"a window must hold at least {len(prefix) + 2} tokens")
    start = 0 if prefix else 1
    while start < len(text):
        context = (*prefix, *text[max(start - 1, 0) : start])
        end = start + size - len(context)
        yield Window((*context, *text[start:end]), len(context))
        start = end
