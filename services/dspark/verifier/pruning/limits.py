"""From which margin on a node is hopeless: learnt such that few accepted tokens are lost."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.pruning.margins import Margins
from dspark.verifier.pruning.node_kinds import NUM_KINDS

BIN_WIDTH = 0.5
NUM_BINS = 64
# What was seen fades by this with each audited pass.
DECAY = 0.998
_BISECTIONS = 40

Kinds = NDArray[np.int64]


class Limits(Protocol):
    """Tells hopeless nodes from others, and learns from passes in which none was dropped."""

    @property
    def is_ready(self) -> bool:
        """Whether enough was seen to drop nodes."""
        ...

    def hopeless(self, kinds: Kinds, margins: Margins) -> NDArray[np.bool_]:
        """[num_nodes] which nodes are not worth the rest of the pass."""
        ...

    def learn(self, kinds: Kinds, margins: Margins, stakes: NDArray[np.int64]) -> None:
        """``stakes`` [num_nodes]: accepted tokens that would have been lost with each node."""
        ...


class LearntLimits:
    """Of all limits that lose at most ``max_loss`` of the accepted tokens, those that drop most.

    Margins are counted in bins, by kind of node. As long as nothing was lost among 3 / max_loss
    accepted tokens, the loss is below max_loss with 95 % confidence (the rule of three), so fewer
    are not enough to begin with.
    """

    def __init__(self, max_loss: float) -> None:
        self._max_loss = max_loss
        self._nodes = np.zeros((NUM_KINDS, NUM_BINS))
        self._stakes = np.zeros((NUM_KINDS, NUM_BINS))
        self._accepted = 0.0
        # By kind, the first bin that is hopeless.
        self._first_bins = np.full(NUM_KINDS, NUM_BINS)

    @property
    def is_ready(self) -> bool:
        return self._accepted >= 3.0 / self._max_loss

    def hopeless(self, kinds: Kinds, margins: Margins) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = _bins(margins) >= self._first_bins[kinds]
        return found

    def learn(self, kinds: Kinds, margins: Margins, stakes: NDArray[np.int64]) -> None:
        for counts in (self._nodes, self._stakes):
            counts *= DECAY
        places = (kinds, _bins(margins))
        np.add.at(self._nodes, places, 1.0)
        np.add.at(self._stakes, places, stakes)
        # A node's stake contains those of its descendants.
        self._accepted = self._accepted * DECAY + int((stakes > 0).sum())
        if self.is_ready:
            budget = self._max_loss * self._accepted
            self._first_bins = best_first_bins(self._nodes, self._stakes, budget)


def best_first_bins(
    nodes: NDArray[np.float64], stakes: NDArray[np.float64], budget: float
) -> NDArray[np.int64]:
    """[num_kinds] the first bins to drop, for most nodes at stakes of at most ``budget`` in all.

    ``nodes`` and ``stakes`` are [num_kinds, num_bins]. One price of a lost token for all kinds,
    found by bisection (a Lagrange multiplier), shares the budget out among them.
    """
    dropped, lost = _from_bin_on(nodes), _from_bin_on(stakes)
    kinds = np.arange(len(nodes))
    low, high = -20.0, 30.0
    best = np.full(len(nodes), nodes.shape[1])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        first_bins = np.argmax(dropped - np.exp2(middle) * lost, axis=1)
        if lost[kinds, first_bins].sum() <= budget:
            best, high = first_bins, middle
        else:
            low = middle
    return best


def _from_bin_on(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """[num_kinds, num_bins + 1] the sum of each bin and all after it."""
    sums = np.zeros((counts.shape[0], counts.shape[1] + 1))
    sums[:, :-1] = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    return sums


def _bins(margins: Margins) -> NDArray[np.int64]:
    """What is no number counts as no margin, so that it is kept as long as anything is."""
    finite = np.nan_to_num(margins, nan=0.0, posinf=NUM_BINS * BIN_WIDTH, neginf=0.0)
    return np.clip(finite / BIN_WIDTH, 0, NUM_BINS - 1).astype(np.int64)
