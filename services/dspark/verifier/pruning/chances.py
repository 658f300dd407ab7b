"""How likely nodes are to be accepted if their parents are: a logistic model that learns online."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.pruning.evidence import NUM_NUMBERS, Evidence

# The weight of the belief that no number says anything.
_RIDGE = 2.0
# What was learnt fades by this with each pass.
DECAY = 0.998


class Chances:
    """One Newton step for each pass, with the curvature of all passes so far."""

    def __init__(self) -> None:
        self._weights = np.zeros(NUM_NUMBERS)
        self._curvature = np.eye(NUM_NUMBERS) * _RIDGE

    def log_odds(self, evidence: Evidence) -> NDArray[np.float64]:
        """[num_nodes] the logarithm of the odds that a node is accepted."""
        found: NDArray[np.float64] = evidence @ self._weights
        return found

    def learn(self, evidence: Evidence, accepted: NDArray[np.bool_]) -> None:
        """``evidence`` of nodes whose parents were reached, and which of them were accepted."""
        chances = 1.0 / (1.0 + np.exp(-np.clip(self.log_odds(evidence), -30.0, 30.0)))
        bends = evidence * (chances * (1.0 - chances))[:, None]
        fresh = np.eye(NUM_NUMBERS) * _RIDGE * (1.0 - DECAY)
        self._curvature = DECAY * self._curvature + fresh + bends.T @ evidence
        slope = evidence.T @ (accepted - chances)
        self._weights = self._weights + np.linalg.solve(self._curvature, slope)
