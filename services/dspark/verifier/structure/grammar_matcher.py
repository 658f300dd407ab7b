"""Follows a grammar token by token, by llguidance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from dspark.verifier.structure.matcher import MatcherFailed


class GrammarMatcher:
    """One matcher of llguidance, which tells its errors only when it is asked."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    @property
    def is_complete(self) -> bool:
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def consume(self, token_ids: Sequence[int]) -> None:
        if not self._matcher.consume_tokens(list(token_ids)):
            raise self._failure()

    def rollback(self, num_tokens: int) -> None:
        if not self._matcher.rollback(num_tokens):
            raise self._failure()

    def allows(self, token_id: int) -> bool:
        return self._matcher.validate_tokens([token_id]) == 1

    def forced(self) -> Sequence[int]:
        return self._matcher.compute_ff_tokens()

    def mask(self, vocab_size: int) -> NDArray[np.bool_]:
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            raise self._failure()
        known = np.unpackbits(bits, bitorder="little")[:vocab_size].astype(np.bool_)
        # Logits beyond the tokenizer's tokens stand for no text.
        return np.pad(known, (0, vocab_size - len(known)))

    def fork(self) -> GrammarMatcher:
        return GrammarMatcher(self._matcher.deep_copy())

    def _failure(self) -> MatcherFailed:
        lines = self._matcher.get_error().splitlines()
        return MatcherFailed(lines[0] if lines else "it cannot go back so far")
