"""Counts what follows each context in many texts (pure)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.context_key import DIGEST_BYTES
from dspark.candidates.sources.counted import Counted, count_one
from dspark.candidates.sources.lessons import lessons

Entry = tuple[bytes, Counted]
"""The digest of a context, and what followed it."""


class CorpusIndex:
    """The lessons of all texts as columns, a row each: some 200 bytes for each token of text.

    Counted as a store counts that learns the texts one after the other.
    """

    def __init__(self) -> None:
        self.num_tokens = 0
        # [num_lessons] each: digest of the context, number of tokens that followed
        self._digests = bytearray()
        self._sizes = bytearray()
        # what followed, one after the other
        self._followed = array("I")

    def add(self, token_ids: Sequence[int]) -> None:
        """A text; no context reaches from one into another."""
        self.num_tokens += len(token_ids)
        for key, followed in lessons(b"", token_ids):
            self._digests += key.digest
            self._sizes.append(len(followed))
            self._followed.extend(followed)

    def count(self) -> CountedContexts:
        """What was added so far."""
        digests = np.frombuffer(bytes(self._digests), "<u8")
        ends = np.cumsum(np.frombuffer(bytes(self._sizes), np.uint8), dtype=np.int64)
        return CountedContexts(digests, ends, self._followed)


class CountedContexts:
    """Iterates over the contexts in the order of their digests as little-endian numbers."""

    def __init__(
        self, digests: NDArray[np.uint64], ends: NDArray[np.int64], followed: array[int]
    ) -> None:
        """``followed[ends[i - 1] : ends[i]]`` came after the context ``digests[i]``."""
        # lessons by context, those of one context in the order in which they came
        self._order = np.argsort(digests, kind="stable")
        self._digests = digests
        self._ends = ends
        self._followed = followed
        ordered = digests[self._order]
        # [num_contexts]: where the lessons of each begin in the order
        self._firsts = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Entry]:
        limits = [*self._firsts.tolist(), len(self._order)]
        for first, end in pairwise(limits):
            rows = self._order[first:end]
            counted: Counted = []
            for row in rows.tolist():
                count_one(counted, self._tokens(row))
            yield int(self._digests[rows[0]]).to_bytes(DIGEST_BYTES, "little"), counted

    def _tokens(self, row: int) -> tuple[int, ...]:
        start = self._ends[row - 1] if row else 0
        return tuple(self._followed[start : self._ends[row]])
