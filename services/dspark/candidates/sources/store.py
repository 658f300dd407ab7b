"""Where sources find what followed a context, and where retrieval keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.counted import Counted, count_one
from dspark.circuit_breaker import BreakerState
from dspark.metrics.distribution import Distribution

Lesson = tuple[ContextKey, tuple[int, ...]]
"""A context and the tokens that followed it once."""


class KnownContinuations(Protocol):
    """Counted continuations by context, to look up. What is lost or broken is empty, and counted;
    only ``start`` raises.
    """

    counts: Counter[str]
    """How often each thing went wrong, by reason."""

    def lookup(
        self, keys: Sequence[ContextKey]
    ) -> Sequence[Counted] | Awaitable[Sequence[Counted]]:
        """What followed each context, in order; empty where nothing is known."""
        ...

    @property
    def num_entries(self) -> int:
        """Contexts held in this process."""
        return 0

    @property
    def breakers(self) -> Mapping[str, BreakerState]:
        return {}

    @property
    def seconds(self) -> Mapping[str, Distribution]:
        """Times of the operations on a server."""
        return {}

    async def start(self) -> None:
        """Called once, in the event loop, before anything else.

        Raises ValueError if the setting that names it cannot be meant.
        """
        return None

    async def close(self) -> None:
        """Called once, last."""
        return None


class ContinuationStore(KnownContinuations, Protocol):
    """One that learns. It may lose or refuse anything, and never raises for it."""

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        """Count each lesson once more."""
        ...


class MemoryStore(ContinuationStore):
    """In this process; the context that was used least recently goes first when it is full."""

    def __init__(self, max_entries: int) -> None:
        self.counts = Counter()
        self._max_entries = max_entries
        # a dict keeps insertion order: entries are put in anew when they are used
        self._entries: dict[bytes, Counted] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def num_entries(self) -> int:
        return len(self)

    def lookup(self, keys: Sequence[ContextKey]) -> list[Counted]:
        return [self._use(key.to_bytes()) for key in keys]

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        for key, token_ids in lessons:
            name = key.to_bytes()
            counted = self._entries.pop(name, [])
            count_one(counted, token_ids)
            self._entries[name] = counted
        while len(self._entries) > self._max_entries:
            del self._entries[next(iter(self._entries))]

    def _use(self, name: bytes) -> Counted:
        counted = self._entries.pop(name, None)
        if counted is None:
            return []
        self._entries[name] = counted
        return counted
