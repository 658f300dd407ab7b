"""Sums over schedulers that come and go never go back."""

from __future__ import annotations

from collections.abc import Mapping

from dspark.gateway.steady_counts import SteadyCounts
from dspark.gateway.token_source import SchedulerStatus
from dspark.sampling import SourceCounts, SpeculationStats

BOTH = ("a", "b")


def status(count: int) -> SchedulerStatus:
    """One running request, and ``count`` in every counter."""
    stats = SpeculationStats(count, count, count, {"suffix": SourceCounts(count, count)})
    return SchedulerStatus(1, 1, 5, 10, 16, count, count, count, (count, 0), stats)


def counted(total: SchedulerStatus) -> int:
    """What every counter says; all must agree."""
    speculation = total.speculation
    counts = {total.num_preemptions, total.prompt_tokens, total.cached_tokens}
    counts |= {speculation.rounds, speculation.sources["suffix"].accepted}
    counts |= {sum(total.accepted_by_position)}
    assert len(counts) == 1, total
    return counts.pop()


def total(steady: SteadyCounts[str], answers: Mapping[str, int], *present: str) -> SchedulerStatus:
    return steady.total({name: status(n) for name, n in answers.items()}, present or BOTH)


def test_one_scheduler_is_passed_on_as_it_is() -> None:
    steady = SteadyCounts[str]()
    for count in (3, 8):
        assert total(steady, {"a": count}, "a") == status(count)


def test_a_silent_scheduler_keeps_its_counts_but_runs_nothing() -> None:
    steady = SteadyCounts[str]()
    assert counted(total(steady, {"a": 3, "b": 4})) == 7
    alone = total(steady, {"a": 5})
    assert counted(alone) == 9
    assert (alone.num_running, alone.num_blocks, alone.block_size) == (1, 10, 16)
    assert counted(total(steady, {"a": 5, "b": 6})) == 11


def test_a_scheduler_that_begins_anew_adds_to_what_it_was() -> None:
    steady = SteadyCounts[str]()
    total(steady, {"a": 30, "b": 4})
    assert counted(total(steady, {"a": 2, "b": 4})) == 36
    assert counted(total(steady, {"a": 5, "b": 4})) == 39
    assert counted(total(steady, {"a": 1, "b": 4})) == 40


def test_a_scheduler_that_left_is_remembered_once() -> None:
    steady = SteadyCounts[str]()
    total(steady, {"a": 3, "b": 4})
    for _ in range(2):
        assert counted(total(steady, {"b": 4}, "b")) == 7
    assert counted(total(steady, {"c": 1, "b": 4}, "b", "c")) == 8
