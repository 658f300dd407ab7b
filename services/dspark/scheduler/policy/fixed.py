"""Classic draft-k: the same number of nodes for every request, whatever they cost."""

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


class FixedPolicy:
    """Up to ``num_draft_tokens`` nodes for each request."""

    is_off = False
    price = 0.0

    def __init__(self, settings: PolicySettings) -> None:
        self._num_draft_tokens = settings.num_draft_tokens

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        if not context.max_nodes:
            return [Budget()] * len(views)
        return [Budget(min(view.max_nodes, self._num_draft_tokens)) for view in views]

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        chosen: list[list[int]] = [[] for _ in trees]
        left = context.max_nodes
        for _, index, node in best_nodes(trees):
            if left and len(chosen[index]) < self._num_draft_tokens:
                chosen[index].append(node)
                left -= 1
        return keep(trees, chosen)
