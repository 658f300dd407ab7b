"""Counted continuations in Redis, shared by all candidates workers."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError

from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.counted import Counted, count_one, pack, unpack
from dspark.candidates.sources.store import ContinuationStore, Lesson
from dspark.circuit_breaker import BreakerState, CircuitBreaker
from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution

log = logging.getLogger(__name__)

# Look-ups wait milliseconds; connecting and learning happen aside and may take this long.
PATIENCE_S = 1.0
MAX_CONNECTIONS = 8
MAX_FAILURES = 3
MIN_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
_FAILURES = (RedisError, OSError, TimeoutError)


class RedisStore(ContinuationStore):
    """One MGET a look-up, under a deadline and behind a circuit breaker.

    While the breaker is open a look-up yields nothing at once, and a task aside tries the server
    until it answers within the deadline. A context's key is its digest modulo ``max_entries``, so a
    tenant can never take more keys a context length; the value says which context it belongs to,
    and the last one learnt wins.

    ``counts``: ``lookup`` and ``learn`` (failed calls), ``garbage`` (values that make no sense),
    ``refused`` (writes that the server did not take), ``skipped`` (lessons not sent because the
    breaker was open).
    """

    def __init__(self, url: str, *, deadline_s: float, ttl_s: int, max_entries: int) -> None:
        self.counts = Counter()
        self._times = {
            operation: Distribution(buckets.LOOKUP_SECONDS) for operation in ("lookup", "learn")
        }
        self._deadline_s = deadline_s
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._lookups = CircuitBreaker(MAX_FAILURES, MIN_PAUSE_S, MAX_PAUSE_S)
        self._lookups.open()
        self._writes = CircuitBreaker(1, MIN_PAUSE_S, MAX_PAUSE_S)
        self._lost = asyncio.Event()
        self._is_told = False
        self._watch: asyncio.Task[None] | None = None
        self._client: Redis = Redis.from_url(
            url,
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=MAX_CONNECTIONS,
            protocol=2,
        )

    @property
    def is_degraded(self) -> bool:
        """Whether look-ups yield nothing because the server does not answer in time."""
        return self._lookups.is_open

    @property
    def breakers(self) -> Mapping[str, BreakerState]:
        return {"redis_lookup": self._lookups.state, "redis_write": self._writes.state}

    @property
    def seconds(self) -> Mapping[str, Distribution]:
        """Of failed operations too: how long was waited for them."""
        return self._times

    async def start(self) -> None:
        self._watch = asyncio.create_task(self._keep_watch())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        try:
            await self._client.aclose()
        except _FAILURES as error:
            log.debug("retrieval store: closing failed", exc_info=error)

    def lookup(
        self, keys: Sequence[ContextKey]
    ) -> Sequence[Counted] | Awaitable[Sequence[Counted]]:
        if self._lookups.is_open or not keys:
            return [[] for _ in keys]
        return self._fetch(keys)

    async def _fetch(self, keys: Sequence[ContextKey]) -> list[Counted]:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._deadline_s):
                values = await self._values(keys)
        except Exception as error:
            self._lookup_failed(error)
            return [[] for _ in keys]
        finally:
            self._times["lookup"].observe(time.perf_counter() - started)
        self._lookups.succeeded()
        return [self._unpack(key, value) for key, value in zip(keys, values, strict=True)]

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        if self._lookups.is_open or not self._writes.allows():
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
            self._times["learn"].observe(time.perf_counter() - started)
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
        values = await self._values(keys)
        known = {key: self._unpack(key, value) for key, value in zip(keys, values, strict=True)}
        for key, token_ids in lessons:
            count_one(known[key], token_ids)
        pipeline = self._client.pipeline(transaction=False)
        for key, counted in known.items():
            pipeline.set(self._name(key), pack(key.digest, counted), ex=self._ttl_s)
        replies = await pipeline.execute(raise_on_error=False)
        return sum(isinstance(reply, Exception) for reply in replies)

    async def _values(self, keys: Sequence[ContextKey]) -> Sequence[object]:
        values: object = await self._client.mget([self._name(key) for key in keys])
        if not isinstance(values, list) or len(values) != len(keys):
            raise InvalidResponse("not one value for each key")
        return values

    def _name(self, key: ContextKey) -> bytes:
        slot = int.from_bytes(key.digest, "little") % self._max_entries
        return key.namespace + struct.pack(">BQ", key.length, slot)

    def _unpack(self, key: ContextKey, value: object) -> Counted:
        if not isinstance(value, bytes):
            return []
        try:
            return unpack(key.digest, value)
        except ValueError:
            self.counts["garbage"] += 1
            return []

    def _lookup_failed(self, error: Exception) -> None:
        self.counts["lookup"] += 1
        if self._lookups.is_open:
            return
        if self._lookups.failed():
            self._tell(error)
            self._lost.set()

    def _tell(self, error: Exception) -> None:
        """Once for each time that the store is away, be it from the start on."""
        if not self._is_told:
            log.warning("retrieval store does not answer in time (%r): going on without", error)
        self._is_told = True

    async def _keep_watch(self) -> None:
        """Whenever the breaker is open, try the server until it answers in time."""
        while True:
            while self._lookups.is_open:
                await asyncio.sleep(self._lookups.seconds_to_trial)
                if (error := await self._trial()) is None:
                    self._lookups.succeeded()
                    self._is_told = False
                    log.info("retrieval store is connected")
                else:
                    self._lookups.failed()
                    self._tell(error)
            await self._lost.wait()
            self._lost.clear()

    async def _trial(self) -> Exception | None:
        """What keeps the server, once connected to, from an answer within a look-up's deadline."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._client.ping()
            async with asyncio.timeout(self._deadline_s):
                await self._client.ping()
        except Exception as error:
            log.debug("retrieval store: no answer", exc_info=error)
            return error
        return None
