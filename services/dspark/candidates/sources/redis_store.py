"""Counted continuations in Redis, shared by all candidates workers."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Mapping, Sequence

from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.counted import count_one, pack
from dspark.candidates.sources.redis_lookups import (
    MAX_PAUSE_S,
    MIN_PAUSE_S,
    PATIENCE_S,
    RedisLookups,
    one_for_each,
)
from dspark.candidates.sources.store import ContinuationStore, Lesson
from dspark.circuit_breaker import BreakerState, CircuitBreaker
from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution

log = logging.getLogger(__name__)


class RedisStore(RedisLookups, ContinuationStore):
    """One MGET a look-up. A context's key is its digest modulo ``max_entries``, so a tenant can
    never take more keys a context length; the value says which context it belongs to, and the last
    one learnt wins.

    ``counts`` has as well: ``learn`` (failed calls), ``refused`` (writes that the server did not
    take), ``skipped`` (lessons not sent because a breaker was open).
    """

    def __init__(self, url: str, *, deadline_s: float, ttl_s: int, max_entries: int) -> None:
        super().__init__(url, title="retrieval store", operation="lookup", deadline_s=deadline_s)
        self._learn_times = Distribution(buckets.LOOKUP_SECONDS)
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._writes = CircuitBreaker(1, MIN_PAUSE_S, MAX_PAUSE_S)

    @property
    def breakers(self) -> Mapping[str, BreakerState]:
        return {**super().breakers, "redis_write": self._writes.state}

    @property
    def seconds(self) -> Mapping[str, Distribution]:
        return {**super().seconds, "learn": self._learn_times}

    async def values(self, keys: Sequence[ContextKey]) -> Sequence[object]:
        return one_for_each(keys, await self.client.mget([self._name(key) for key in keys]))

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        if self.is_degraded or not self._writes.allows():
            self.counts["skipped"] += len(lessons)
            return
        started = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_S):
                refused = await self._write(lessons)
        except Exception as error:
            log.debug("retrieval store: learning failed", exc_info=error)
            self.counts["learn"] += 1
            self._writes.failed()
            return
        finally:
            self._learn_times.observe(time.perf_counter() - started)
        if refused:
            self.counts["refused"] += refused
            self._writes.failed()
        else:
            self._writes.succeeded()

    async def _write(self, lessons: Sequence[Lesson]) -> int:
        """Read, count and write back; returns how many writes the server refused.

        Two workers that learn the same context at the same time may lose a count, which costs
        nothing but speed.
        """
        keys = list(dict.fromkeys(key for key, _ in lessons))
        values = await self.values(keys)
        known = {key: self.unpacked(key, value) for key, value in zip(keys, values, strict=True)}
        for key, token_ids in lessons:
            count_one(known[key], token_ids)
        pipeline = self.client.pipeline(transaction=False)
        for key, counted in known.items():
            pipeline.set(self._name(key), pack(key.digest, counted), ex=self._ttl_s)
        replies = await pipeline.execute(raise_on_error=False)
        return sum(isinstance(reply, Exception) for reply in replies)

    def _name(self, key: ContextKey) -> bytes:
        slot = int.from_bytes(key.digest, "little") % self._max_entries
        return key.namespace + struct.pack(">BQ", key.length, slot)
