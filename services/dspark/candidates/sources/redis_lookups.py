"""Look-ups of continuations in Redis that never wait long, whatever Redis does."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError

from dspark.background_task import end
from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.counted import Counted, unpack
from dspark.candidates.sources.store import KnownContinuations
from dspark.circuit_breaker import BreakerState, CircuitBreaker
from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution

log = logging.getLogger(__name__)

# Look-ups wait milliseconds; connecting and writing happen aside and may take this long.
PATIENCE_S = 1.0
MAX_CONNECTIONS = 8
MAX_FAILURES = 3
MIN_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
FAILURES = (RedisError, OSError, TimeoutError)


class RedisLookups(KnownContinuations):
    """One command a look-up, under a deadline and behind a circuit breaker.

    While the breaker is open a look-up yields nothing at once, and a task aside tries the server
    until it answers within the deadline.

    ``counts``: ``lookup`` (failed calls), ``garbage`` (values that make no sense).
    """

    def __init__(self, url: str, *, title: str, operation: str, deadline_s: float) -> None:
        """``title`` is its name in the log, ``operation`` what metrics call a look-up."""
        self.counts = Counter()
        self.client: Redis = Redis.from_url(
            url,
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=MAX_CONNECTIONS,
            protocol=2,
            # Servers before 7.2 refuse to be told it, at every connection.
            driver_info=None,
        )
        self._times = Distribution(buckets.LOOKUP_SECONDS)
        self._title = title
        self._operation = operation
        self._deadline_s = deadline_s
        self._lookups = CircuitBreaker(MAX_FAILURES, MIN_PAUSE_S, MAX_PAUSE_S)
        self._lookups.open()
        self._lost = asyncio.Event()
        self._is_told = False
        self._watch: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[Sequence[object]]] = set()

    @abstractmethod
    async def values(self, keys: Sequence[ContextKey]) -> Sequence[object]:
        """The server's value for each key, in order; anything but bytes is none."""

    @property
    def is_degraded(self) -> bool:
        """Whether look-ups yield nothing because the server does not answer in time."""
        return self._lookups.is_open

    @property
    def breakers(self) -> Mapping[str, BreakerState]:
        return {f"redis_{self._operation}": self._lookups.state}

    @property
    def seconds(self) -> Mapping[str, Distribution]:
        """Of failed operations too: how long was waited for them."""
        return {self._operation: self._times}

    async def start(self) -> None:
        self._watch = asyncio.create_task(self._keep_watch())

    async def close(self) -> None:
        if self._watch is not None:
            await end([self._watch])
        await end(tuple(self._commands))
        try:
            await self.client.aclose()
        except FAILURES as error:
            log.debug("%s: closing failed", self._title, exc_info=error)

    def lookup(
        self, keys: Sequence[ContextKey]
    ) -> Sequence[Counted] | Awaitable[Sequence[Counted]]:
        if self._lookups.is_open or not keys:
            return [[] for _ in keys]
        return self._fetch(keys)

    async def _fetch(self, keys: Sequence[ContextKey]) -> list[Counted]:
        started = time.perf_counter()
        try:
            values = await self._in_time(keys)
        except Exception as error:
            self._lookup_failed(error)
            return [[] for _ in keys]
        finally:
            self._times.observe(time.perf_counter() - started)
        self._lookups.succeeded()
        return [self.unpacked(key, value) for key, value in zip(keys, values, strict=True)]

    async def _in_time(self, keys: Sequence[ContextKey]) -> Sequence[object]:
        """The server's values. Raises TimeoutError after the deadline.

        Who waits goes away then, and the answer is read aside: to cancel the command would close
        its connection, and connecting anew costs more than the look-up.
        """
        command = asyncio.create_task(self.values(keys))
        self._commands.add(command)
        command.add_done_callback(self._answered)
        done, _ = await asyncio.wait((command,), timeout=self._deadline_s)
        if not done:
            raise TimeoutError("no answer within the deadline")
        return command.result()

    def _answered(self, command: asyncio.Task[Sequence[object]]) -> None:
        self._commands.discard(command)
        if not command.cancelled() and (error := command.exception()) is not None:
            log.debug("%s: a look-up failed", self._title, exc_info=error)

    def unpacked(self, key: ContextKey, value: object) -> Counted:
        """What a value says of the key's context; nothing if it makes no sense."""
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
            log.warning("%s does not answer in time (%r): going on without", self._title, error)
        self._is_told = True

    async def _keep_watch(self) -> None:
        """Whenever the breaker is open, try the server until it answers in time."""
        while True:
            while self._lookups.is_open:
                await asyncio.sleep(self._lookups.seconds_to_trial)
                if (error := await self._trial()) is None:
                    self._lookups.succeeded()
                    self._is_told = False
                    log.info("%s is connected", self._title)
                else:
                    self._lookups.failed()
                    self._tell(error)
            await self._lost.wait()
            self._lost.clear()

    async def _trial(self) -> Exception | None:
        """What keeps the server, once connected to, from an answer within a look-up's deadline."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.client.ping()
            async with asyncio.timeout(self._deadline_s):
                await self.client.ping()
        except Exception as error:
            log.debug("%s: no answer", self._title, exc_info=error)
            return error
        return None


def one_for_each(keys: Sequence[ContextKey], values: object) -> Sequence[object]:
    """The reply of a command for several values. Raises InvalidResponse for another form."""
    if not isinstance(values, list) or len(values) != len(keys):
        raise InvalidResponse("not one value for each key")
    return values
