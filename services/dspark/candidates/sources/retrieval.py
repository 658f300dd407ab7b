"""``retrieval``: what followed the last tokens in other, finished requests."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Iterator, Sequence
from itertools import islice

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import ContextKey, context_key, namespace
from dspark.candidates.sources.continuations import Continuation, tree_from_continuations
from dspark.candidates.sources.counted import Counted
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.candidates.sources.redis_store import RedisStore
from dspark.candidates.sources.store import ContinuationStore, Lesson, MemoryStore
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

# Longest first.
CONTEXT_LENGTHS = (6, 4, 3, 2)
# A context of n tokens is worth n + 2 tokens of what follows.
EXTRA_TOKENS = 2
# By match length, from 0: as for a request's own text, less for the shortest, which say more about
# the language than about the subject.
ODDS = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
# Learning is done aside, so many lessons at a time, between which other work gets its turn.
LESSONS_A_BATCH = 32
MAX_QUEUED_SEQUENCES = 64
MAX_LEARNT_TOKENS = 4096


class RetrievalSource(CandidateSource):
    """Looks up the last tokens, in several lengths, in a store that finished requests have filled.

    ``counts["dropped"]``: finished sequences that were not learnt because too many waited.
    """

    name = "retrieval"

    def __init__(self, store: ContinuationStore, model_id: str) -> None:
        self.store = store
        self.counts: Counter[str] = Counter()
        self._model_id = model_id
        self._finished: deque[LiveSequence] = deque()
        self._has_finished = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._learner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.store.start()
        self._learner = asyncio.create_task(self._learn_all())

    async def close(self) -> None:
        if self._learner is not None:
            self._learner.cancel()
            await asyncio.wait([self._learner])
        await self.store.close()

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        if not completed:
            return
        if len(self._finished) >= MAX_QUEUED_SEQUENCES:
            self.counts["dropped"] += 1
            return
        self._finished.append(sequence)
        self._is_idle.clear()
        self._has_finished.set()

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> list[TokenTree] | Awaitable[list[TokenTree]]:
        keys = [self._contexts(request.sequence) for request in requests]
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

    async def drain(self) -> None:
        """Wait until all finished sequences are learnt."""
        await self._is_idle.wait()

    def _contexts(self, sequence: LiveSequence) -> list[ContextKey]:
        space = namespace(self._model_id, sequence.cache_salt)
        text = sequence.token_ids
        return [context_key(space, text[-n:]) for n in CONTEXT_LENGTHS if n <= len(text)]

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
                )
        return TokenTree()

    async def _learn_all(self) -> None:
        while True:
            if not self._finished:
                self._is_idle.set()
                self._has_finished.clear()
                await self._has_finished.wait()
            lessons = self._lessons(self._finished.popleft())
            while batch := list(islice(lessons, LESSONS_A_BATCH)):
                await self._learn(batch)
                await asyncio.sleep(0)

    async def _learn(self, batch: Sequence[Lesson]) -> None:
        try:
            await self.store.learn(batch)
        except Exception:
            self.counts["raised"] += 1
            log.warning("the retrieval store failed to learn", exc_info=True)

    def _lessons(self, sequence: LiveSequence) -> Iterator[Lesson]:
        """Every generated token's contexts, and what followed them."""
        space = namespace(self._model_id, sequence.cache_salt)
        text = sequence.token_ids
        first = max(sequence.num_prompt_tokens, len(text) - MAX_LEARNT_TOKENS)
        for position in range(first, len(text)):
            for length in CONTEXT_LENGTHS:
                if length <= position:
                    context = text[position - length : position]
                    followed = tuple(text[position : position + length + EXTRA_TOKENS])
                    yield context_key(space, context), followed


def retrieval_source(config: CandidatesConfig) -> RetrievalSource:
    """Over Redis when the config has its URL, else over this process's memory."""
    store: ContinuationStore
    if config.redis_url is None:
        store = MemoryStore(config.retrieval_max_entries)
    else:
        store = RedisStore(
            config.redis_url,
            deadline_s=config.redis_deadline_ms / 1000,
            ttl_s=config.retrieval_ttl_s,
            max_entries=config.retrieval_max_entries,
        )
    return RetrievalSource(store, config.model_id)
