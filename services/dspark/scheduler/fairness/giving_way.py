"""Which running request gives its place to an interactive one that would have to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from dspark.request_class import RequestClass
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.request import Request, Share


def who_gives_way(
    newcomer: Request,
    running: Sequence[Request],
    waiting: Collection[Share],
    num_slots: int,
    settings: FairnessSettings,
) -> Request | None:
    """Of the requests that may be preempted, the one that has least to compute again.

    Batch requests give way to interactive ones. Of interactive ones, those do whose tenant has more
    than its part of the ``num_slots`` places, to a tenant that has less: the places are divided
    evenly between the tenants that run or are ``waiting``.
    """
    if newcomer.spec.request_class is RequestClass.BATCH:
        return None
    victims = _of_batch(running, int(settings.batch_share * num_slots))
    victims = victims or _beyond_their_part(newcomer.share, running, waiting, num_slots)
    return min(victims, key=lambda request: request.num_computed_tokens, default=None)


def _of_batch(running: Sequence[Request], num_kept: int) -> list[Request]:
    """Batch has ``num_kept`` places for good, and one in which each gives way once at most."""
    batch = [r for r in running if r.spec.request_class is RequestClass.BATCH]
    if len(batch) > max(num_kept, 1):
        return batch
    return [] if num_kept else [r for r in batch if not r.has_given_way]


def _beyond_their_part(
    share: Share, running: Sequence[Request], waiting: Collection[Share], num_slots: int
) -> list[Request]:
    num_running = Counter(request.share for request in running)
    present = {each for each in (*num_running, *waiting) if each[0] is share.request_class}
    part = max(1, num_slots // len(present))
    if num_running[share] >= part:
        return []
    return [request for request in running if num_running[request.share] > part]
