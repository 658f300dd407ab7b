"""Texts that must not be generated, as the token runs that spell them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dspark.errors import InvalidArgument

MAX_WORDS = 256
MAX_WORD_CHARS = 256

TokenRun = tuple[int, ...]


def check_bad_words(words: Sequence[str]) -> None:
    """Raise InvalidArgument for more or longer words than are served."""
    if len(words) > MAX_WORDS:
        raise InvalidArgument("bad_words", f"has {len(words)} words; the limit is {MAX_WORDS}")
    for word in words:
        if not word.strip():
            raise InvalidArgument("bad_words", "a bad word must not be empty")
        if len(word) > MAX_WORD_CHARS:
            raise InvalidArgument(
                "bad_words", f"a bad word may have at most {MAX_WORD_CHARS} characters"
            )


def bad_word_runs(words: Sequence[str], encode: Callable[[str], TokenRun]) -> tuple[TokenRun, ...]:
    """Each word as it is spelled at the start of a text, and behind a space where that is another
    run of as many tokens, which is how vLLM reads ``bad_words``.
    """
    runs: dict[TokenRun, None] = {}
    for word in words:
        bare, spaced = encode(word.lstrip()), encode(" " + word.lstrip())
        if not bare:
            raise InvalidArgument("bad_words", "a bad word has no tokens")
        runs[bare] = None
        if len(spaced) == len(bare) and spaced[0] != bare[0]:
            runs[spaced] = None
    return tuple(runs)
