"""Verifies every node that is likely enough, whatever it costs."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
    best_nodes,
    keep,
)
from dspark.token_tree import TokenTree


class ThresholdPolicy:
    """Nodes whose calibrated survival is at least ``min_survival``, best first."""

    is_off = False
    price = 0.0

    def __init__(self, settings: PolicySettings) -> None:
        self._min_survival = settings.min_survival

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        if not context.max_nodes:
            return [Budget()] * len(views)
        return [Budget(view.max_nodes) for view in views]

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        chosen: list[list[int]] = [[] for _ in trees]
        for survival, index, node in best_nodes(trees)[: context.max_nodes]:
            if survival >= self._min_survival:
                chosen[index].append(node)
        return keep(trees, chosen)
