"""From which odds on a node is hopeless, such that few accepted tokens are lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 80
# Nats from one bin to the next, and the log-odds above which all nodes share the first one.
_BIN_WIDTH = 0.2
_LARGEST = 4.0
# What was seen fades by this with each audited pass.
DECAY = 0.998


class LossLimit:
    """Counts, by log-odds, the accepted tokens that dropping nodes would have lost.

    Odds are those that were estimated before it was known what became of the nodes, so the loss is
    that of nodes that nothing was learnt from. One token more counts as lost than was seen
    (Laplace), and what past limits lost beyond their share is taken off: the best of many limits
    looks better than it is. As long as nothing was lost among 3 / max_loss accepted tokens, the
    loss is below max_loss with 95 % confidence (the rule of three), so fewer are not enough to
    begin with.
    """

    def __init__(self, max_loss: float) -> None:
        self._max_loss = max_loss
        self._stakes = np.zeros(NUM_BINS)
        self._accepted = 0.0
        # Tokens that past limits lost beyond what they may, each pass by the limit before it.
        self._excess = 0.0
        self._first_bin = NUM_BINS

    @property
    def is_ready(self) -> bool:
        return self._accepted >= 3.0 / self._max_loss

    def hopeless(self, log_odds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """[num_nodes] which nodes are below the limit."""
        found: NDArray[np.bool_] = _bins(log_odds) >= self._first_bin
        return found

    def add(self, log_odds: NDArray[np.float64], stakes: NDArray[np.int64]) -> None:
        """``stakes`` [num_nodes]: accepted tokens that would have been lost with each node.

        A stake contains those of the node's descendants, which errs on the side of too much.
        """
        num_accepted = int((stakes > 0).sum())
        if self.is_ready:
            lost_now = int(stakes[self.hopeless(log_odds)].sum())
            self._excess = self._excess * DECAY + lost_now - self._max_loss * num_accepted
        self._stakes *= DECAY
        np.add.at(self._stakes, _bins(log_odds), stakes)
        self._accepted = self._accepted * DECAY + num_accepted
        if self.is_ready:
            budget = self._max_loss * self._accepted - 1.0 - max(self._excess, 0.0)
            too_much = np.flatnonzero(self._stakes[::-1].cumsum()[::-1] > budget)
            self._first_bin = int(too_much[-1]) + 1 if len(too_much) else 0


def _bins(log_odds: NDArray[np.float64]) -> NDArray[np.int64]:
    """The lower the odds, the higher the bin."""
    places = (_LARGEST - log_odds) / _BIN_WIDTH
    return np.clip(places, 0, NUM_BINS - 1).astype(np.int64)
