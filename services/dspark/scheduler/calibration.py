"""How far the sources' scores are to be believed, learnt from what became of every proposed tree.

A node's chance to be accepted once its parent is: its own score, corrected by how much of what such
nodes promised they held. "Such nodes" gets narrower level by level: those of the same sources, then
of requests drawn as freely too, then of the same score, then of the same rank among siblings, then
of the same depth. Each level is shrunk to the one above while it has seen little. Old tries fade.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

from dspark.scheduler.calibration_error import CalibrationError
from dspark.scheduler.outcomes import Outcome
from dspark.token_tree import TokenTree, names_in

# So many promised tokens of the level above count with those that a level has seen, by level. The
# widest has to find out quickly who boasts; log loss on recorded proposals is flat around these.
SHRINKAGE = (2.0, 2.0, 8.0, 8.0, 8.0)
DECAY = 0.99
# Scores within one of these bins share what is learnt of them.
SCORE_EDGES = (0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MAX_RANK = 3
# Below 1, so that a child's survival is always under its parent's.
MAX_SCORE = 0.995
MIN_SCORE = 1e-5
# What was predicted of a node is compared with what became of it for one tree in so many.
ERROR_INTERVAL = 4
_DEPTH_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, 5)
_LAST_BUCKET = 6

_Kind: TypeAlias = tuple[tuple[str, ...], int, int, int, int]
"""Sources, bin of the request's temperature, score bin, rank, depth bucket."""


class _Level:
    """What nodes promised together, and what they held, in tokens."""

    __slots__ = ("held", "promised")

    def __init__(self, promised: float = 0.0, held: float = 0.0) -> None:
        self.promised = promised
        self.held = held


class Calibration:
    """Ratios of held to promised tokens, level by level, for all requests of a model."""

    def __init__(self) -> None:
        self.errors: defaultdict[str, CalibrationError] = defaultdict(CalibrationError)
        self._num_updates = 0
        self._levels: dict[tuple[Any, ...], _Level] = {}
        self._chains: dict[_Kind, tuple[_Level, ...]] = {}
        self._names: dict[tuple[tuple[str, ...], int], tuple[str, ...]] = {}

    def survivals(self, tree: TokenTree, temperature_bin: int = 0) -> list[float]:
        """Calibrated probability of each node to lie on the accepted path."""
        survivals: list[float] = []
        kinds = self._kinds(tree, temperature_bin)
        for kind, parent, score in zip(kinds, tree.parents, tree.scores, strict=True):
            calibrated = self._calibrated(kind, score)
            survivals.append(calibrated if parent == 0 else calibrated * survivals[parent - 1])
        return survivals

    def update(self, outcome: Outcome) -> None:
        """Count the tried nodes of a tree."""
        tree = outcome.tree
        kinds = self._kinds(tree, outcome.temperature_bin)
        tried = [(kinds[node], tree.scores[node], accepted) for node, accepted in outcome.tried]
        self._num_updates += 1
        if self._num_updates % ERROR_INTERVAL == 0:
            for kind, score, accepted in tried:
                predicted = self._calibrated(kind, score)
                for name in kind[0]:
                    self.errors[name].add(predicted, accepted)
        for kind, score, accepted in tried:
            for level in self._chain(kind):
                level.promised = level.promised * DECAY + score
                level.held = level.held * DECAY + accepted

    def state(self) -> list[list[Any]]:
        """All that was learnt, as JSON."""
        return [[key, level.promised, level.held] for key, level in self._levels.items()]

    @classmethod
    def restored(cls, state: Sequence[Sequence[Any]]) -> Calibration:
        """From a ``state``; raises ValueError or TypeError for anything else."""
        calibration = cls()
        for (names, *rest), promised, held in state:
            key = (tuple(map(str, names)), *map(int, rest))
            if not (0 <= promised < float("inf") and 0 <= held < float("inf")):
                raise ValueError(f"{promised} promised, {held} held")
            calibration._levels[key] = _Level(float(promised), float(held))
        return calibration

    def _calibrated(self, kind: _Kind, score: float) -> float:
        """Probability of a node to be accepted if its parent is."""
        factor = 1.0
        for level, weight in zip(self._chain(kind), SHRINKAGE, strict=True):
            factor = (level.held + weight * factor) / (level.promised + weight)
        return min(max(score * factor, MIN_SCORE), MAX_SCORE)

    def _chain(self, kind: _Kind) -> tuple[_Level, ...]:
        """The levels of a kind, widest first."""
        chain = self._chains.get(kind)
        if chain is None:
            keys = [kind[:end] for end in range(1, len(kind) + 1)]
            chain = tuple(self._levels.setdefault(key, _Level()) for key in keys)
            self._chains[kind] = chain
        return chain

    def _kinds(self, tree: TokenTree, temperature_bin: int) -> list[_Kind]:
        sources = {mask: self._sources(tree.source_names, mask) for mask in set(tree.source_masks)}
        return [
            (
                sources[mask],
                temperature_bin,
                bisect(SCORE_EDGES, score),
                rank,
                _DEPTH_BUCKETS[depth] if depth < len(_DEPTH_BUCKETS) else _LAST_BUCKET,
            )
            for mask, depth, score, rank in zip(
                tree.source_masks, tree.depths, tree.scores, _ranks(tree), strict=True
            )
        ]

    def _sources(self, names: tuple[str, ...], mask: int) -> tuple[str, ...]:
        """Who proposed a node, as a value that does not depend on the order of the names."""
        known = (names, mask)
        if known not in self._names:
            self._names[known] = tuple(sorted(names_in(mask, names)))
        return self._names[known]


def _ranks(tree: TokenTree) -> list[int]:
    """Place of each node among its siblings; they come best first."""
    counts: dict[int, int] = {}
    ranks = []
    for parent in tree.parents:
        rank = counts.get(parent, 0)
        counts[parent] = rank + 1
        ranks.append(min(rank, MAX_RANK))
    return ranks
