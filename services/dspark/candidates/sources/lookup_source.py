"""A source that continues the last tokens as a store knows them to go on."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Sequence
from itertools import islice

from dspark.candidates.keyed_draws import draws_of
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.continuations import Continuation, tree_from_continuations
from dspark.candidates.sources.counted import Counted
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.candidates.sources.lessons import last_contexts
from dspark.candidates.sources.store import KnownContinuations
from dspark.token_tree import TokenTree

# By match length, from 0: as for a request's own text, less for the shortest, which say more about
# the language than about the subject.
ODDS = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)


class LookupSource(CandidateSource):
    """Looks up the last tokens, in several lengths; it teaches the store nothing.

    ``counts``: what went wrong in the source itself, by reason.
    """

    def __init__(self, store: KnownContinuations) -> None:
        self.store = store
        self.counts: Counter[str] = Counter()

    @abstractmethod
    def space(self, sequence: LiveSequence) -> bytes:
        """The namespace of the contexts that may serve the sequence."""

    async def start(self) -> None:
        await self.store.start()

    async def close(self) -> None:
        await self.store.close()

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> list[TokenTree] | Awaitable[list[TokenTree]]:
        keys = [
            last_contexts(self.space(request.sequence), request.sequence.token_ids)
            for request in requests
        ]
        found = self.store.lookup([key for contexts in keys for key in contexts])
        if isinstance(found, Awaitable):
            return self._wait_for_trees(requests, keys, found)
        return self._trees(requests, keys, found)

    def vitals(self) -> SourceVitals:
        store = self.store
        troubles = {f"store_{reason}": count for reason, count in dict(store.counts).items()}
        return SourceVitals(
            store.num_entries, {**self.counts, **troubles}, store.breakers, store.seconds
        )

    async def _wait_for_trees(
        self,
        requests: Sequence[DraftRequest],
        keys: Sequence[Sequence[ContextKey]],
        found: Awaitable[Sequence[Counted]],
    ) -> list[TokenTree]:
        return self._trees(requests, keys, await found)

    def _trees(
        self,
        requests: Sequence[DraftRequest],
        keys: Sequence[Sequence[ContextKey]],
        found: Sequence[Counted],
    ) -> list[TokenTree]:
        answers = iter(found)
        return [
            self._tree(request, contexts, list(islice(answers, len(contexts))))
            for request, contexts in zip(requests, keys, strict=True)
        ]

    def _tree(
        self, request: DraftRequest, contexts: Sequence[ContextKey], found: Sequence[Counted]
    ) -> TokenTree:
        """The longest context that is known decides."""
        for key, counted in zip(contexts, found, strict=True):
            if counted:
                return tree_from_continuations(
                    [Continuation(tokens, 0, key.length, count) for tokens, count in counted],
                    ODDS,
                    source=self.name,
                    max_nodes=request.max_nodes,
                    max_depth=request.max_depth,
                    min_survival=request.floor,
                    draws=draws_of(request.sequence),
                )
        return TokenTree()
