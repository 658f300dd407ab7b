"""Plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.scheduler.policy.interface import (
    Budget,
    PolicySettings,
    RequestView,
    ScoredTree,
    StepContext,
)
from dspark.token_tree import TokenTree


class OffPolicy:
    """Never asks."""

    is_off = True
    price = 0.0

    def __init__(self, settings: PolicySettings) -> None:
        pass

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        return [Budget()] * len(views)

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        return [TokenTree()] * len(trees)
