"""What a text teaches: the contexts of its tokens, and what followed each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dspark.candidates.sources.context_key import ContextKey, context_key
from dspark.candidates.sources.store import Lesson

# Longest first.
CONTEXT_LENGTHS = (6, 4, 3, 2)
# A context of n tokens is worth n + 2 tokens of what follows.
EXTRA_TOKENS = 2


def last_contexts(space: bytes, token_ids: Sequence[int]) -> list[ContextKey]:
    """The contexts at the end of a text, longest first."""
    return [context_key(space, token_ids[-n:]) for n in CONTEXT_LENGTHS if n <= len(token_ids)]


def lessons(space: bytes, token_ids: Sequence[int], first: int = 0) -> Iterator[Lesson]:
    """The contexts before each token from position ``first`` on, and what followed them."""
    for position in range(first, len(token_ids)):
        for length in CONTEXT_LENGTHS:
            if length <= position:
                context = token_ids[position - length : position]
                followed = tuple(token_ids[position : position + length + EXTRA_TOKENS])
                yield context_key(space, context), followed
