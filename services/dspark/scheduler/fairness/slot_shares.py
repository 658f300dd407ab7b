"""Whose requests may take the next place among those that run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from dspark.scheduler.fairness.lane import LaneKey
from dspark.scheduler.fairness.recent_tenants import RecentTenants
from dspark.scheduler.fairness.settings import FairnessSettings


class SlotRules(Protocol):
    """What the queue asks before it says who is next."""

    def may_enter(self, key: LaneKey) -> bool:
        """Whether such a request may enter at all now."""
        ...

    def should_wait(self, key: LaneKey) -> bool:
        """Whether it may enter only if nobody else waits."""
        ...


class AnySlot:
    """No rules."""

    def may_enter(self, key: LaneKey) -> bool:
        return True

    def should_wait(self, key: LaneKey) -> bool:
        return False


class SlotShares:
    """The places of one step; ``add`` is called for each request that is admitted in it.

    A few places stay free for tenants that were here lately and run nothing now: requests of one
    that fills all places may take minutes to end. A tenant, and long requests, have a bounded share
    while others wait.
    """

    def __init__(
        self,
        max_num_seqs: int,
        settings: FairnessSettings,
        running: Iterable[LaneKey],
        recent: RecentTenants,
        now: float,
    ) -> None:
        self._max_num_seqs = max_num_seqs
        self._max_of_tenant = max(1, int(max_num_seqs * settings.tenant_share))
        self._max_long = max(1, int(max_num_seqs * settings.long_share))
        self._max_kept = int(max_num_seqs * settings.newcomer_share)
        self._recent, self._now = recent, now
        self._of_tenant: Counter[str] = Counter()
        self._num_long = 0
        for key in running:
            self._count(key)
        self._num_kept = self._kept()

    def add(self, key: LaneKey) -> None:
        self._count(key)
        self._num_kept = self._kept()

    def may_enter(self, key: LaneKey) -> bool:
        is_newcomer = key.tenant not in self._of_tenant
        room = self._max_num_seqs - self._of_tenant.total()
        return is_newcomer or room > self._num_kept

    def should_wait(self, key: LaneKey) -> bool:
        if key.is_long and self._num_long >= self._max_long:
            return True
        return self._of_tenant[key.tenant] >= self._max_of_tenant

    def _count(self, key: LaneKey) -> None:
        self._of_tenant[key.tenant] += 1
        self._num_long += key.is_long

    def _kept(self) -> int:
        return min(self._max_kept, self._recent.num_besides(self._of_tenant, self._now))
