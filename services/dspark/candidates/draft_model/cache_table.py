"""The KV caches of all sequences under one limit of tokens; the longest unused go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable

from dspark.candidates.draft_model.sequence_cache import SequenceCache


class CacheTable:
    """Caches by sequence, least recently used first."""

    def __init__(self, num_layers: int, max_tokens: int) -> None:
        self._num_layers = num_layers
        self.max_tokens = max_tokens
        self._caches: OrderedDict[Hashable, SequenceCache] = OrderedDict()
        self.num_evicted = 0

    def __len__(self) -> int:
        return len(self._caches)

    def __contains__(self, sequence: Hashable) -> bool:
        return sequence in self._caches

    @property
    def num_tokens(self) -> int:
        """Tokens in all caches, those of trees among them."""
        return sum(cache.num_columns for cache in list(self._caches.values()))

    def open(self, sequence: Hashable) -> SequenceCache:
        """The cache of a sequence, a new one if there is none."""
        if sequence not in self._caches:
            return self.restart(sequence, 0)
        self._caches.move_to_end(sequence)
        return self._caches[sequence]

    def restart(self, sequence: Hashable, start: int) -> SequenceCache:
        """An empty cache of the tokens from ``start`` on."""
        cache = self._caches[sequence] = SequenceCache(self._num_layers, start)
        self._caches.move_to_end(sequence)
        return cache

    def make_room(self, num_tokens: int, keep: Collection[Hashable]) -> bool:
        """Drop caches until so many more fit, but none of ``keep``; whether they do now."""
        for sequence in [each for each in self._caches if each not in keep]:
            if self.num_tokens + num_tokens <= self.max_tokens:
                break
            if self._caches.pop(sequence).num_columns:
                self.num_evicted += 1
        return self.num_tokens + num_tokens <= self.max_tokens

    def forget(self, sequence: Hashable) -> None:
        self._caches.pop(sequence, None)
