"""A request that may take candidates in this step, and from whom."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.proposal import ProposeItem
from dspark.scheduler.policy.interface import Budget, RequestView
from dspark.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Wish:
    """``max_depth`` is that of the deepest node that could still be committed."""

    request: Request
    view: RequestView
    max_depth: int
    sources: tuple[str, ...]

    def item(self, budget: Budget, price: float) -> ProposeItem:
        """What candidates are asked, where a millisecond must bring ``price`` tokens."""
        request = self.request
        return ProposeItem(
            request.request_id,
            request.epoch,
            len(request.token_ids),
            budget.max_nodes,
            self.max_depth,
            self.sources,
            budget.min_survival,
            price,
        )
