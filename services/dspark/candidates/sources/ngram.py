"""``ngram``: what this model tends to say, from a static table of its own text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from dspark.candidates.best_first import grow
from dspark.candidates.keyed_draws import draws_of
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.candidates.sources.ngram_table import NgramTable
from dspark.token_tree import TokenTree

# Continuations below this probability are not worth a node anywhere.
MIN_SCORE = 0.01
MAX_DEPTH = 8
CACHED_CONTEXTS = 4096

Context: TypeAlias = tuple[int, ...]


class NgramSource(CandidateSource):
    """A best-first tree over the table; it knows nothing of the request but its last tokens."""

    name = "ngram"

    def __init__(self, table: NgramTable) -> None:
        self._table = table
        # Much of a tree is grown again in the next step, from one level further down.
        self._children = lru_cache(CACHED_CONTEXTS)(self._look_up)

    def vitals(self) -> SourceVitals:
        return SourceVitals(self._table.num_contexts)

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [self._propose_one(request) for request in requests]

    def _propose_one(self, request: DraftRequest) -> TokenTree:
        grown = grow(
            tuple(request.sequence.token_ids[-self._table.max_order :]),
            lambda context, depth: self._children(context),
            max_nodes=request.max_nodes,
            min_survival=request.floor,
            max_depth=min(request.max_depth, MAX_DEPTH),
            draws=draws_of(request.sequence),
        )
        return grown.to_tree(self.name)

    def _look_up(self, context: Context) -> list[tuple[int, float, Context]]:
        """Each likely next token, its probability, and the context that it leads to."""
        size = self._table.max_order
        return [
            (token_id, score, (*context, token_id)[-size:])
            for token_id, score in self._table.successors(context)
            if score >= MIN_SCORE
        ]
