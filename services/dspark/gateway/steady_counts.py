"""Counts of schedulers that come, go and start anew, added up so that they never go back."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from dspark.gateway.scheduler_sums import summed
from dspark.gateway.token_source import SchedulerStatus

Member = TypeVar("Member", bound=Hashable)


class SteadyCounts(Generic[Member]):
    """What each scheduler counted last is kept: while it is silent, after it left, and when it
    begins again at zero.
    """

    def __init__(self) -> None:
        self._last: dict[Member, SchedulerStatus] = {}
        self._past: SchedulerStatus | None = None

    def total(
        self, answers: Mapping[Member, SchedulerStatus], present: Collection[Member]
    ) -> SchedulerStatus:
        """The sum; what goes on now is that of ``answers``, which has at least one."""
        for member, status in answers.items():
            last = self._last.get(member)
            if last is not None and _began_anew(last, status):
                self._retire(last)
            self._last[member] = status
        for member in [member for member in self._last if member not in present]:
            self._retire(self._last.pop(member))
        parts = [
            status if member in answers else _counts_of(status)
            for member, status in self._last.items()
        ]
        return summed(parts if self._past is None else [*parts, self._past])

    def _retire(self, status: SchedulerStatus) -> None:
        counts = _counts_of(status)
        self._past = counts if self._past is None else summed([self._past, counts])


def _began_anew(last: SchedulerStatus, status: SchedulerStatus) -> bool:
    return (
        status.prompt_tokens < last.prompt_tokens
        or status.speculation.rounds < last.speculation.rounds
    )


def _counts_of(status: SchedulerStatus) -> SchedulerStatus:
    """Without what is the case now, which says nothing of later."""
    return replace(status, num_running=0, num_waiting=0, num_free_blocks=0, num_blocks=0)
