"""Which running request gives its place to one that has waited long."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.request_class import RequestClass
from dspark.scheduler.request import Request


def who_gives_way(
    newcomer: Request, running: Sequence[Request], now: float, after_s: float
) -> Request | None:
    """The batch request that has least to compute again, for an interactive one only.

    Each gives way once, so that it ends however many interactive requests come.
    """
    if newcomer.spec.request_class is RequestClass.BATCH or now - newcomer.arrived_at < after_s:
        return None
    victims = [r for r in running if r.spec.request_class is RequestClass.BATCH]
    victims = [request for request in victims if not request.has_given_way]
    return min(victims, key=lambda request: request.num_computed_tokens, default=None)
