"""How far the sources' scores are to be believed, learnt from every verified tree.

A node is tried when a token was drawn at its parent's row, and accepted when it is that token.
Tries are counted by who proposed the node, how deep it is and what score it had; the calibrated
score is the accepted share, shrunk to the node's own score while tries are few. The own score is
first corrected by how far its sources promise too much over all their nodes, which shows after few
tries. Old tries fade, and so does the belief in the node's own score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.scheduler.calibration_error import CalibrationError
from dspark.token_tree import TokenTree, names_in

# The node's own score counts as so many tries, fewer with each real one.
PRIOR_WEIGHT = 3.0
PRIOR_DECAY = 0.95
DECAY = 0.99
# Tokens promised and held that an unknown source starts with.
PROMISE_WEIGHT = 2.0
SCORE_BINS = 10
# Below 1, so that a child's survival is always under its parent's.
MAX_SCORE = 0.999
MIN_SCORE = 1e-4
# What was predicted of a node is compared with what became of it for one tree in so many.
ERROR_INTERVAL = 4
_DEPTH_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, 5)
_LAST_BUCKET = 6

_Key = tuple[tuple[str, ...], int, int]


@dataclass(slots=True)
class _Counts:
    tries: float = 0.0
    accepts: float = 0.0
    prior_weight: float = PRIOR_WEIGHT

    def add(self, accepted: bool) -> None:
        self.prior_weight *= PRIOR_DECAY
        self.tries = self.tries * DECAY + 1.0
        self.accepts = self.accepts * DECAY + accepted


@dataclass(slots=True)
class _Promise:
    """What the nodes of some sources promised together, and what they held."""

    promised: float = PROMISE_WEIGHT
    held: float = PROMISE_WEIGHT

    @property
    def factor(self) -> float:
        return self.held / self.promised

    def add(self, score: float, accepted: bool) -> None:
        self.promised = self.promised * DECAY + score
        self.held = self.held * DECAY + accepted


class Calibration:
    """Decayed acceptance counts by (sources, depth bucket, score bin)."""

    def __init__(self) -> None:
        self.error = CalibrationError()
        self._num_updates = 0
        self._promises: dict[tuple[str, ...], _Promise] = {}
        self._counts: dict[_Key, _Counts] = {}
        self._names: dict[tuple[tuple[str, ...], int], tuple[str, ...]] = {}

    def survivals(self, tree: TokenTree) -> list[float]:
        """Calibrated probability of each node to lie on the accepted path."""
        survivals: list[float] = []
        for key, parent, score in zip(self._keys(tree), tree.parents, tree.scores, strict=True):
            calibrated = self._calibrated(key, score)
            survivals.append(calibrated if parent == 0 else calibrated * survivals[parent - 1])
        return survivals

    def _calibrated(self, key: _Key, score: float) -> float:
        """Probability of a node to be accepted if its parent is."""
        if (promise := self._promises.get(key[0])) is not None:
            score = min(score * promise.factor, MAX_SCORE)
        if (counts := self._counts.get(key)) is not None:
            score = counts.accepts + counts.prior_weight * score
            score /= counts.tries + counts.prior_weight
        return min(max(score, MIN_SCORE), MAX_SCORE)

    def update(
        self, tree: TokenTree, accepted_nodes: Sequence[int], committed_token_ids: Sequence[int]
    ) -> None:
        """Count the tried nodes of a verified tree; the arguments are those of WorkResult."""
        drawn = dict(zip((0, *accepted_nodes), committed_token_ids, strict=False))
        tried = [
            (key, score, token_id == drawn[parent])
            for key, score, token_id, parent in zip(
                self._keys(tree), tree.scores, tree.token_ids, tree.parents, strict=True
            )
            if parent in drawn
        ]
        self._num_updates += 1
        if self._num_updates % ERROR_INTERVAL == 0:
            for key, score, accepted in tried:
                self.error.add(self._calibrated(key, score), accepted)
        for key, score, accepted in tried:
            self._counts.setdefault(key, _Counts()).add(accepted)
            self._promises.setdefault(key[0], _Promise()).add(score, accepted)

    def _keys(self, tree: TokenTree) -> list[_Key]:
        sources = {mask: self._sources(tree.source_names, mask) for mask in set(tree.source_masks)}
        return [
            (
                sources[mask],
                _DEPTH_BUCKETS[depth] if depth < len(_DEPTH_BUCKETS) else _LAST_BUCKET,
                min(int(score * SCORE_BINS), SCORE_BINS - 1),
            )
            for mask, depth, score in zip(tree.source_masks, tree.depths, tree.scores, strict=True)
        ]

    def _sources(self, names: tuple[str, ...], mask: int) -> tuple[str, ...]:
        """Who proposed a node, as a value that does not depend on the order of the names."""
        known = (names, mask)
        if known not in self._names:
            self._names[known] = tuple(sorted(names_in(mask, names)))
        return self._names[known]
