"""Where the last tokens of a growing text occurred before in it."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.candidates.sources.continuations import Continuation

# Lengths of the indexed contexts, longest first. From the longest on, matches are extended
# backwards token by token, so it only has to be long enough to keep its lists short.
CONTEXT_LENGTHS = (3, 2, 1)
MAX_MATCH_LEN = 16
MAX_OCCURRENCES = 24


class SuffixIndex:
    """Occurrence lists of short contexts: O(1) a token to append, a bounded time to look up."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        # context (its last tokens) -> positions of the token after it, ascending
        self._occurrences: dict[tuple[int, ...], list[int]] = {}

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens. The context before each new token becomes one of its known occurrences."""
        text = self.token_ids
        occurrences = self._occurrences
        for token_id in token_ids:
            end = len(text)
            for length in CONTEXT_LENGTHS:
                if length <= end:
                    context = tuple(text[end - length :])
                    known = occurrences.get(context)
                    if known is None:
                        occurrences[context] = [end]
                    else:
                        known.append(end)
            text.append(token_id)

    def continuations(self) -> list[Continuation]:
        """Earlier occurrences of the text's end: longest context first, then the most recent."""
        found: dict[int, Continuation] = {}
        text = self.token_ids
        for length in CONTEXT_LENGTHS:
            if length > len(text):
                continue
            known = self._occurrences.get(tuple(text[-length:]), ())
            for position in reversed(known):
                if len(found) == MAX_OCCURRENCES:
                    return list(found.values())
                if position not in found:
                    match_len = self._match_len(position, length)
                    found[position] = Continuation(text, position, match_len)
        return list(found.values())

    def _match_len(self, position: int, length: int) -> int:
        """How many tokens before ``position`` equal the text's end, at least ``length``."""
        text = self.token_ids
        limit = min(position, MAX_MATCH_LEN)
        while length < limit and text[position - 1 - length] == text[-1 - length]:
            length += 1
        return length
