"""A corpus in Redis: one hash that never expires, from digests of contexts to what followed them.

The values are packed as retrieval's; the field ``info`` holds what the corpus says of itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Sequence
from itertools import islice

from redis import Redis
from redis.exceptions import RedisError

from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.corpus_index import Entry
from dspark.candidates.sources.corpus_info import CorpusInfo
from dspark.candidates.sources.counted import pack
from dspark.candidates.sources.redis_lookups import (
    FAILURES,
    PATIENCE_S,
    RedisLookups,
    one_for_each,
)

log = logging.getLogger(__name__)

_INFO = b"info"
_ENTRIES_A_WRITE = 1000
# A hash that is still being filled lasts this long after each write: a crash leaves nothing behind.
_UNFINISHED_S = 600


class RedisCorpus(RedisLookups):
    """One HMGET a look-up, of the hash ``key``."""

    def __init__(
        self, url: str, *, name: str, key: bytes, vocab_size: int | None, deadline_s: float
    ) -> None:
        """``name`` is the source's, for the log, metrics and errors."""
        super().__init__(url, title=f"{name} in Redis", operation=name, deadline_s=deadline_s)
        self._name = name
        self._key = key
        self._vocab_size = vocab_size

    async def start(self) -> None:
        """Raises ValueError if the server says that it has no such corpus for this model.

        A server that does not answer is gone on without, as at any other time.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                packed = await self.client.hget(self._key, _INFO)
            self._check(packed)
        except FAILURES as error:
            log.debug("%s: not checked", self._name, exc_info=error)
        except ValueError:
            await self.close()
            raise
        await super().start()

    async def values(self, keys: Sequence[ContextKey]) -> Sequence[object]:
        digests = [key.digest for key in keys]
        return one_for_each(keys, await self.client.hmget(self._key, digests))

    def _check(self, packed: object) -> None:
        if not isinstance(packed, bytes):
            raise ValueError(f"sources: {self._name} is in no file and not in Redis")
        try:
            CorpusInfo.from_bytes(packed).check_vocabulary(self._vocab_size)
        except ValueError as error:
            raise ValueError(f"sources: {self._name} in Redis {error}") from error


def publish(client: Redis, key: bytes, info: CorpusInfo, entries: Iterable[Entry]) -> int:
    """Put a corpus in the place of the one that ``key`` named; returns the bytes of its values.

    Readers see the old one whole, then the new one whole. Raises RedisError when the server does
    not take or keep all of it.
    """
    unfinished = key + b":" + secrets.token_hex(8).encode()
    try:
        num_bytes = _fill(client, unfinished, info, entries)
        # A server whose memory is full may drop a key that can expire, as this one still can.
        if client.hlen(unfinished) != info.num_contexts + 1:
            raise RedisError("the server did not keep what was written")
        _rename(client, unfinished, key)
    except BaseException:
        _drop(client, unfinished)
        raise
    return num_bytes


def _fill(client: Redis, key: bytes, info: CorpusInfo, entries: Iterable[Entry]) -> int:
    num_bytes = 0
    rest = iter(entries)
    _write(client, key, [(_INFO, info.to_bytes())])
    while batch := [
        (digest, pack(digest, each)) for digest, each in islice(rest, _ENTRIES_A_WRITE)
    ]:
        _write(client, key, batch)
        num_bytes += sum(len(value) for _, value in batch)
    return num_bytes


def _write(client: Redis, key: bytes, fields: Iterable[tuple[bytes, bytes]]) -> None:
    with client.pipeline(transaction=True) as pipeline:
        pipeline.hset(key, items=[part for field in fields for part in field])
        pipeline.expire(key, _UNFINISHED_S)
        pipeline.execute()


def _rename(client: Redis, unfinished: bytes, key: bytes) -> None:
    with client.pipeline(transaction=True) as pipeline:
        # A large hash is freed aside by this, and in the way of all others by the renaming.
        pipeline.unlink(key)
        pipeline.rename(unfinished, key)
        pipeline.persist(key)
        pipeline.execute()


def _drop(client: Redis, unfinished: bytes) -> None:
    try:
        client.unlink(unfinished)
    except RedisError as error:
        log.debug("%r stays until it expires", unfinished, exc_info=error)
