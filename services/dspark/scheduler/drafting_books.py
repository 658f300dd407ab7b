"""What became of the askings for candidates, counted over all requests and workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum

from dspark.token_tree import TokenTree


class Fallback(Enum):
    """Why a step with decoding requests went without candidates."""

    OFF = "off"
    NO_SERVICE = "no_service"
    UNAVAILABLE = "unavailable"
    NOT_ASKED = "not_asked"
    LATE = "late"
    EMPTY = "empty"
    NOT_BOUGHT = "not_bought"


class NodesBySource:
    """Nodes by who proposed them, counted by source mask: one call a tree, none a node."""

    def __init__(self) -> None:
        self._masks: dict[tuple[str, ...], defaultdict[int, int]] = {}

    def add(self, source_names: tuple[str, ...], masks: Iterable[int]) -> None:
        counts = self._masks.get(source_names)
        if counts is None:
            counts = self._masks[source_names] = defaultdict(int)
        for mask in masks:
            counts[mask] += 1

    def by_source(self) -> Counter[str]:
        """A node of two sources counts for both."""
        return self._sum(alone=False)

    def by_only_source(self) -> Counter[str]:
        """Nodes that no other source proposed too."""
        return self._sum(alone=True)

    def _sum(self, alone: bool) -> Counter[str]:
        sums: Counter[str] = Counter()
        for names, counts in dict(self._masks).items():
            sums.update(dict.fromkeys(names, 0))
            for mask, count in dict(counts).items():
                if alone and mask.bit_count() != 1:
                    continue
                for bit, name in enumerate(names):
                    if mask >> bit & 1:
                        sums[name] += count
        return sums


class DraftingBooks:
    """Counters of drafting since the scheduler's start."""

    def __init__(self) -> None:
        self.fallbacks: Counter[Fallback] = Counter()
        self.proposed = NodesBySource()
        self.source_ns: Counter[str] = Counter()
        self.mutes: Counter[str] = Counter()

    def count_proposed(self, tree: TokenTree) -> None:
        """Count the nodes of one sound tree, whose names are those of running sources."""
        self.proposed.add(tree.source_names, tree.source_masks)

    def count_costs(self, costs_ns: Mapping[str, int]) -> None:
        self.source_ns.update(costs_ns)
