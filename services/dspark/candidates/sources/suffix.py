"""``suffix``: this request's own prompt and output (after SuffixDecoding, arXiv:2411.04975)."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.candidates.keyed_draws import draws_of
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.continuations import tree_from_continuations
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.candidates.sources.suffix_index import SuffixIndex
from dspark.token_tree import TokenTree

# By match length, from 0. One occurrence is right more often than this (measured odds are 0.4, 1.4,
# 1.8, 3.2, 5 for 1 to 5 tokens), but occurrences of one text are far from independent, and modest
# odds leave room for the other sources' guesses.
ODDS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
MAX_DEPTH = 12


class SuffixSource(CandidateSource):
    """Continues the text as it went on where its last tokens occurred before."""

    name = "suffix"

    def __init__(self) -> None:
        self._indexes: dict[LiveSequence, SuffixIndex] = {}

    def commit(self, sequence: LiveSequence, token_ids: Sequence[int]) -> None:
        self._indexes.setdefault(sequence, SuffixIndex()).extend(token_ids)

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        self._indexes.pop(sequence, None)

    def vitals(self) -> SourceVitals:
        return SourceVitals(sum(len(index.token_ids) for index in list(self._indexes.values())))

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [self._propose_one(request) for request in requests]

    def _propose_one(self, request: DraftRequest) -> TokenTree:
        index = self._indexes.get(request.sequence)
        if index is None:
            return TokenTree()
        return tree_from_continuations(
            index.continuations(),
            ODDS,
            source=self.name,
            max_nodes=request.max_nodes,
            max_depth=min(request.max_depth, MAX_DEPTH),
            min_survival=request.floor,
            draws=draws_of(request.sequence),
        )
