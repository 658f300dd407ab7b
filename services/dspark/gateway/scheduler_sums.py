"""What several schedulers count, added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from dspark.gateway.token_source import SchedulerStatus
from dspark.sampling import SourceCounts, SpeculationStats


def summed(statuses: Iterable[SchedulerStatus]) -> SchedulerStatus:
    """Field by field; all of them are counts."""
    statuses = list(statuses)
    if len(statuses) == 1:
        return statuses[0]
    counts = {
        f.name: sum(getattr(status, f.name) for status in statuses)
        for f in fields(SchedulerStatus)
        if f.name != "speculation"
    }
    speculation = _summed_speculation(status.speculation for status in statuses)
    return SchedulerStatus(**counts, speculation=speculation)


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
