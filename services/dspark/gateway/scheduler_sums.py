"""What several schedulers count, added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import zip_longest

from dspark.gateway.token_source import SchedulerStatus
from dspark.sampling import SourceCounts, SpeculationStats

_NO_COUNTS = ("block_size", "accepted_by_position", "speculation")


def summed(statuses: Iterable[SchedulerStatus]) -> SchedulerStatus:
    """Field by field; the size of a block is that of the first that knows it."""
    statuses = list(statuses)
    if len(statuses) == 1:
        return statuses[0]
    counts = {
        f.name: sum(getattr(status, f.name) for status in statuses)
        for f in fields(SchedulerStatus)
        if f.name not in _NO_COUNTS
    }
    positions = zip_longest(*(status.accepted_by_position for status in statuses), fillvalue=0)
    return SchedulerStatus(
        **counts,
        block_size=next((status.block_size for status in statuses if status.block_size), 0),
        accepted_by_position=tuple(map(sum, positions)),
        speculation=_summed_speculation(status.speculation for status in statuses),
    )


def _summed_speculation(books: Iterable[SpeculationStats]) -> SpeculationStats:
    total = SpeculationStats()
    for stats in books:
        total.rounds += stats.rounds
        total.drafted += stats.drafted
        total.accepted += stats.accepted
        for name, counts in stats.sources.items():
            source = total.sources.setdefault(name, SourceCounts())
            source.drafted += counts.drafted
            source.accepted += counts.accepted
    return total
