"""``retrieval``: what followed the last tokens in other, finished requests."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from dspark.background_task import end
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import namespace
from dspark.candidates.sources.lessons import lessons
from dspark.candidates.sources.lookup_source import LookupSource
from dspark.candidates.sources.redis_store import RedisStore
from dspark.candidates.sources.store import ContinuationStore, Lesson, MemoryStore

log = logging.getLogger(__name__)

# Learning is done aside, so many lessons at a time, between which other work gets its turn.
LESSONS_A_BATCH = 32
MAX_QUEUED_SEQUENCES = 64
MAX_LEARNT_TOKENS = 4096


class RetrievalSource(LookupSource):
    """Looks in a store that finished requests have filled, each within its tenant.

    ``counts["dropped"]``: finished sequences that were not learnt because too many waited.
    """

    name = "retrieval"
    store: ContinuationStore

    def __init__(self, store: ContinuationStore, model_id: str) -> None:
        super().__init__(store)
        self._model_id = model_id
        self._finished: deque[LiveSequence] = deque()
        self._has_finished = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._learner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await super().start()
        self._learner = asyncio.create_task(self._learn_all())

    async def close(self) -> None:
        if self._learner is not None:
            await end([self._learner])
        await super().close()

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        if not completed:
            return
        if len(self._finished) >= MAX_QUEUED_SEQUENCES:
            self.counts["dropped"] += 1
            return
        self._finished.append(sequence)
        self._is_idle.clear()
        self._has_finished.set()

    def space(self, sequence: LiveSequence) -> bytes:
        return namespace(self._model_id, sequence.cache_salt)

    async def drain(self) -> None:
        """Wait until all finished sequences are learnt."""
        await self._is_idle.wait()

    async def _learn_all(self) -> None:
        while True:
            if not self._finished:
                self._is_idle.set()
                self._has_finished.clear()
                await self._has_finished.wait()
            rest = self._lessons(self._finished.popleft())
            while batch := list(islice(rest, LESSONS_A_BATCH)):
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
        text = sequence.token_ids
        first = max(sequence.num_prompt_tokens, len(text) - MAX_LEARNT_TOKENS)
        return lessons(self.space(sequence), text, first)


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
