"""From completions to figures. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dspark.client import Completion

_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its completions in the order of its requests, and its wall time."""

    speculation: bool
    concurrency: int
    completions: tuple[Completion, ...]
    wall_s: float

    @property
    def tokens(self) -> int:
        return sum(len(completion.token_ids) for completion in self.completions)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many pairs of requests were compared, and how many of them differ in their tokens."""

    compared: int = 0
    different: int = 0

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(self.compared + other.compared, self.different + other.different)


def compare(left: Run, right: Run) -> Comparison:
    """Compare the token ids of two runs over the same requests."""
    pairs = list(zip(left.completions, right.completions, strict=True))
    return Comparison(len(pairs), sum(a.token_ids != b.token_ids for a, b in pairs))


def median_run(runs: Sequence[Run]) -> Run:
    """The run with the median throughput; of two in the middle, the slower one."""
    return sorted(runs, key=lambda run: run.tokens_per_s)[(len(runs) - 1) // 2]


def report(run: Run) -> dict[str, Any]:
    """The run as it stands in the JSON output; times in milliseconds."""
    return {
        "speculation": "on" if run.speculation else "off",
        "concurrency": run.concurrency,
        "requests": len(run.completions),
        "tokens": run.tokens,
        "tokens_per_s": run.tokens_per_s,
        "ttft_ms": percentiles(completion.ttft_ms for completion in run.completions),
        "itl_ms": percentiles(gap for each in run.completions for gap in each.itl_ms),
        "tpot_ms": percentiles(time_per_token(run.completions)),
        "acceptance_length": acceptance_length(run.completions),
        "sources": source_counts(run.completions),
        "step_ms": step_medians(run.completions),
    }


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """p50, p90 and p99, interpolated between neighbours; all 0 without values."""
    ordered = sorted(values)
    return {f"p{percent}": _percentile(ordered, percent) for percent in _PERCENTILES}


def time_per_token(completions: Iterable[Completion]) -> list[float]:
    """For each completion of two tokens or more: time after the first tokens, a later token."""
    return [
        sum(completion.itl_ms) / (len(completion.token_ids) - 1)
        for completion in completions
        if len(completion.token_ids) > 1
    ]


def acceptance_length(completions: Iterable[Completion]) -> float:
    """Mean tokens a verify pass commits: 1 (the bonus token) + accepted / rounds."""
    stats = [completion.speculation for completion in completions]
    rounds = sum(each.rounds for each in stats)
    return 1.0 + sum(each.accepted for each in stats) / rounds if rounds else 1.0


def source_counts(completions: Iterable[Completion]) -> dict[str, dict[str, int]]:
    """Drafted and accepted nodes by source; a node of two sources counts for both."""
    totals: dict[str, dict[str, int]] = {}
    for completion in completions:
        for name, counts in completion.speculation.sources.items():
            total = totals.setdefault(name, {"drafted": 0, "accepted": 0})
            total["drafted"] += counts.drafted
            total["accepted"] += counts.accepted
    return dict(sorted(totals.items()))


def step_medians(completions: Sequence[Completion]) -> dict[str, float]:
    """Medians over the requests of the medians over each request's steps."""
    parts: dict[str, Callable[[Completion], float]] = {
        "propose": lambda completion: completion.steps.propose_ms,
        "verify": lambda completion: completion.steps.verify_ms,
        "forward": lambda completion: completion.steps.forward_ms,
        "ahead": lambda completion: completion.steps.ahead_ms,
        "overhead": lambda completion: completion.steps.overhead_ms,
    }
    return {
        name: statistics.median(map(part, completions)) if completions else 0.0
        for name, part in parts.items()
    }


def _percentile(ordered: Sequence[float], percent: float) -> float:
    if not ordered:
        return 0.0
    position = (len(ordered) - 1) * percent / 100
    below, above = math.floor(position), math.ceil(position)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
