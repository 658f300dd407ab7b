"""Which running request gives its place to an interactive one that would have to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from dspark.request_class import RequestClass
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.tenant_accounts import QUANTUM
from dspark.scheduler.request import Request, Share

# A tenant may have used so much more than one that gives way to it: a few requests at a time.
MAX_AHEAD_TOKENS = 1024
ROUNDS_AHEAD = MAX_AHEAD_TOKENS // QUANTUM


def who_gives_way(
    newcomer: Request,
    running: Sequence[Request],
    waiting: Collection[Share],
    num_slots: int,
    settings: FairnessSettings,
    round_of: Callable[[Share], int],
) -> Request | None:
    """Of the requests that may be preempted, the one that has least to compute again.

    Batch requests give way to interactive ones. Of interactive ones, those do whose tenant has more
    than its part of the ``num_slots`` places, to a tenant that has less than half of that and did
    not use much more lately, by ``round_of``. Each that runs or is ``waiting`` has an equal part.
    """
    if newcomer.spec.request_class is RequestClass.BATCH:
        return None
    victims = _of_batch(running, int(settings.batch_share * num_slots))
    if not victims:
        present = {r.share for r in running}.union(waiting)
        present = {s for s in present if s.request_class is newcomer.spec.request_class}
        part = max(1, num_slots // len(present))
        victims = _beyond_their_part(newcomer.share, running, part, round_of)
    return min(victims, key=lambda request: request.num_computed_tokens, default=None)


def _of_batch(running: Sequence[Request], num_kept: int) -> list[Request]:
    """Batch has ``num_kept`` places for good, and one in which each gives way once at most."""
    batch = [r for r in running if r.spec.request_class is RequestClass.BATCH]
    if len(batch) > max(num_kept, 1):
        return batch
    return [] if num_kept else [r for r in batch if not r.has_given_way]


def _beyond_their_part(
    share: Share, running: Sequence[Request], part: int, round_of: Callable[[Share], int]
) -> list[Request]:
    num_running = Counter(request.share for request in running)
    # Between the two bounds turns do it: each request that gives way is computed again.
    if num_running[share] >= max(1, part // 2):
        return []
    least_round = round_of(share) - ROUNDS_AHEAD
    return [
        request
        for request in running
        if num_running[request.share] > part and round_of(request.share) >= least_round
    ]
