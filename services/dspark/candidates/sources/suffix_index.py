"""Where the last tokens of a growing text occurred before in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dspark.candidates.sources.continuations import Continuation

# Lengths of the indexed contexts, longest first. From the longest on, matches are extended
# backwards token by token, so it only has to be long enough to keep its chains short.
CONTEXT_LENGTHS = (3, 2, 1)
MAX_MATCH_LEN = 16
MAX_OCCURRENCES = 24
# Token ids are 32 bits on the wire, so a context is a number of that many bits a token.
TOKEN_BITS = 32


class _Chains:
    """For one context length: the positions after each occurrence of a context, latest first."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.mask = (1 << TOKEN_BITS * length) - 1
        self.latest: dict[int, int] = {}
        # position -> the one before it after the same context; 0, before all contexts, ends it
        self.earlier: list[int] = []

    def positions(self, context: int) -> Iterator[int]:
        position = self.latest.get(context & self.mask, 0)
        while position:
            yield position
            position = self.earlier[position]


class SuffixIndex:
    """Chains of equal short contexts: O(1) a token to append, a bounded time to look up."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        # the last tokens as one number
        self._context = 0
        self._chains = tuple(_Chains(length) for length in CONTEXT_LENGTHS)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens. The contexts before each of them have then occurred."""
        start = len(self.token_ids)
        contexts: list[int] = []
        context, mask = self._context, self._chains[0].mask
        for token_id in token_ids:
            contexts.append(context)
            context = (context << TOKEN_BITS | token_id) & mask
        self._context = context
        self.token_ids.extend(token_ids)
        for chains in self._chains:
            mask, latest, earlier = chains.mask, chains.latest, chains.earlier
            for position, context in enumerate(contexts, start):
                if position < chains.length:
                    earlier.append(0)
                    continue
                key = context & mask
                earlier.append(latest.get(key, 0))
                latest[key] = position

    def continuations(self) -> list[Continuation]:
        """Earlier occurrences of the text's end: longest context first, then the most recent."""
        found: dict[int, Continuation] = {}
        text = self.token_ids
        for chains in self._chains:
            if chains.length > len(text):
                continue
            for position in chains.positions(self._context):
                if len(found) == MAX_OCCURRENCES:
                    return list(found.values())
                if position not in found:
                    match_len = self._match_len(position, chains.length)
                    found[position] = Continuation(text, position, match_len)
        return list(found.values())

    def _match_len(self, position: int, length: int) -> int:
        """How many tokens before ``position`` equal the text's end, at least ``length``."""
        text = self.token_ids
        limit = min(position, MAX_MATCH_LEN)
        while length < limit and text[position - 1 - length] == text[-1 - length]:
            length += 1
        return length
