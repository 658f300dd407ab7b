"""Whose requests may take the next place among those that run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from dspark.scheduler.fairness.lane import LaneKey
from dspark.scheduler.fairness.settings import FairnessSettings


class SlotRules(Protocol):
    """What the queue asks before it says who is next."""

    def may_enter(self, key: LaneKey) -> bool:
        """Whether such a request may enter at all now."""
        ...

    def objections(self, key: LaneKey) -> int:
        """How many reasons there are to let others go first; the fewer the better."""
        ...


class AnySlot:
    """No rules."""

    def may_enter(self, key: LaneKey) -> bool:
        return True

    def objections(self, key: LaneKey) -> int:
        return 0


class SlotShares:
    """The places of one step. A tenant, and long requests, have a share of them while others wait.

    ``add`` is called for each request that is admitted, ``block`` where the first of a lane has to
    wait for another step.
    """

    def __init__(
        self, max_num_seqs: int, settings: FairnessSettings, running: Iterable[LaneKey]
    ) -> None:
        self._max_of_tenant = max(1, int(max_num_seqs * settings.tenant_share))
        self._max_long = max(1, int(max_num_seqs * settings.long_share))
        self._of_tenant: Counter[str] = Counter()
        self._num_long = 0
        self._blocked: set[LaneKey] = set()
        for key in running:
            self.add(key)

    def add(self, key: LaneKey) -> None:
        self._of_tenant[key.tenant] += 1
        self._num_long += key.is_long

    def block(self, key: LaneKey) -> None:
        self._blocked.add(key)

    def may_enter(self, key: LaneKey) -> bool:
        return key not in self._blocked

    def objections(self, key: LaneKey) -> int:
        is_beyond = self._of_tenant[key.tenant] >= self._max_of_tenant
        return is_beyond + (key.is_long and self._num_long >= self._max_long)
