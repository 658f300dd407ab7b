"""Tells hopeless nodes from others behind a layer, and learns from passes that dropped none."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.pruning.chances import Chances
from dspark.verifier.pruning.cut import RestrictedLogits
from dspark.verifier.pruning.draw_scores import draw_scores
from dspark.verifier.pruning.evidence import Evidence, evidence_of
from dspark.verifier.pruning.forest import Forest
from dspark.verifier.pruning.loss_limit import LossLimit
from dspark.verifier.pruning.token_means import TokenMeans


class Judge(Protocol):
    """One layer's; it judges a forest, and may then learn what became of it."""

    @property
    def is_ready(self) -> bool:
        """Whether enough was seen to drop nodes."""
        ...

    def hopeless(
        self, forest: Forest, token_ids: NDArray[np.int64], logits: RestrictedLogits
    ) -> NDArray[np.bool_]:
        """[num_nodes] which nodes are not worth the rest of the pass.

        ``logits`` [num_parents, num_tokens] are of ``token_ids``, which ascend and contain all
        tokens of the forest.
        """
        ...

    def learn(self, forest: Forest, stakes: NDArray[np.int64]) -> None:
        """What became of the forest that was judged last, none of which was dropped.

        ``stakes`` [num_nodes]: accepted tokens that would have been lost with each node.
        """
        ...


class LearntJudge:
    """Estimates each node's chance, and drops those below a limit that loses at most
    ``max_loss`` of the accepted tokens.
    """

    def __init__(self, max_loss: float) -> None:
        self._means = TokenMeans()
        self._chances = Chances()
        self._limit = LossLimit(max_loss)
        self._evidence: Evidence = np.zeros((0, 0))

    @property
    def is_ready(self) -> bool:
        return self._limit.is_ready

    def hopeless(
        self, forest: Forest, token_ids: NDArray[np.int64], logits: RestrictedLogits
    ) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            scores = draw_scores(forest, token_ids, self._means.without(token_ids, logits))
        self._evidence = evidence_of(forest, token_ids, scores)
        return self._limit.hopeless(self._chances.log_odds(self._evidence))

    def learn(self, forest: Forest, stakes: NDArray[np.int64]) -> None:
        self._limit.add(self._chances.log_odds(self._evidence), stakes)
        accepted = stakes > 0
        # A child of an anchor is always tried.
        reached = np.where(forest.parent_nodes < 0, True, accepted[forest.parent_nodes])
        self._chances.learn(self._evidence[reached], accepted[reached])
