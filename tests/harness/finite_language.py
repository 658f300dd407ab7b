"""A grammar of a few words of tokens, and the matcher of it: what a guide needs, without text."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.structure.matcher import Matcher, MatcherFailed

Word = tuple[int, ...]


class FiniteMatcher:
    """Allows the words, each of which ``end`` may follow; complete where nothing else may."""

    def __init__(self, words: Sequence[Word], end: int) -> None:
        self.words = tuple(words)
        self.end = end
        self.text: Word = ()

    def following(self) -> set[int]:
        """The tokens that may follow."""
        size = len(self.text)
        if self.text[-1:] == (self.end,):
            return set()
        found = {w[size] for w in self.words if len(w) > size and w[:size] == self.text}
        return found | ({self.end} if self.text in self.words else set())

    @property
    def is_complete(self) -> bool:
        return self.following() <= {self.end}

    def consume(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            if token_id not in self.following():
                raise MatcherFailed(f"{token_id} may not follow {self.text}")
            self.text += (token_id,)

    def rollback(self, num_tokens: int) -> None:
        assert 0 < num_tokens <= len(self.text)
        self.text = self.text[:-num_tokens]

    def allows(self, token_id: int) -> bool:
        return token_id in self.following()

    def forced(self) -> Sequence[int]:
        ahead, tokens = self.fork(), []
        while len(only := ahead.following()) == 1 and only != {self.end}:
            tokens += only
            ahead.consume(tuple(only))
        return tokens

    def mask(self, vocab_size: int) -> NDArray[np.bool_]:
        allowed = np.zeros(vocab_size, dtype=np.bool_)
        allowed[list(self.following())] = True
        return allowed

    def fork(self) -> FiniteMatcher:
        other = FiniteMatcher(self.words, self.end)
        other.text = self.text
        return other


def done(matcher: Matcher) -> Future[Matcher]:
    """A matcher that is compiled already."""
    future: Future[Matcher] = Future()
    future.set_result(matcher)
    return future
