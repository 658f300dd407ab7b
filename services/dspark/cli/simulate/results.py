"""From the outcomes of a run to figures (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dspark.cli.benchmark.aggregate import percentiles
from dspark.cli.simulate.load import Outcome
from dspark.cli.simulate.samples import Samples


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request must keep to count for goodput."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Of all workers together; times in seconds."""

    num_steps: int = 0
    num_rows: float = 0.0
    num_requests: float = 0.0
    num_preemptions: int = 0
    verifiers_busy_s: float = 0.0
    scheduler_busy_s: float = 0.0
    num_workers: int = 1
    num_asked: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One load under one policy."""

    policy: str
    load: float
    outcomes: Sequence[Outcome]
    steps: StepTotals
    samples: Samples = field(default_factory=Samples)


def report(run: Run, targets: Targets) -> dict[str, Any]:
    """The run as it stands in the JSON output; times in milliseconds, rates by second."""
    done = [each for each in run.outcomes if not each.error]
    lasted = duration_s(run.outcomes)
    good = sum(is_good(each, targets) for each in done)
    found = {
        "policy": run.policy,
        "load": run.load,
        "requests": len(done),
        "refused": len(run.outcomes) - len(done),
        "refusals": Counter(each.error for each in run.outcomes if each.error),
        "tokens": sum(each.num_tokens for each in run.outcomes),
        "seconds": lasted,
        "tokens_per_s": _rate(sum(each.num_tokens for each in run.outcomes), lasted),
        "requests_per_s": _rate(len(done), lasted),
        "goodput_per_s": _rate(good, lasted),
        "good_share": _rate(good, len(run.outcomes)),
        **latencies(done),
        "acceptance_length": acceptance_length(done),
        **_steps(run.steps, lasted),
        "waiting": {"mean": _mean(run.samples.waiting), "max": max(run.samples.waiting, default=0)},
        "price": _mean(run.samples.prices),
    }
    groups = sorted({(each.arrival.tenant, each.arrival.request_class) for each in done})
    if groups != [("", "")]:
        found["groups"] = [_group(done, *group, targets) for group in groups]
    return found


def latencies(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """p50, p90 and p99 of each kind of latency."""
    return {
        "ttft_ms": percentiles(ttft_ms(each) for each in outcomes if each.chunks),
        "tpot_ms": percentiles(t for each in outcomes if (t := tpot_ms(each)) is not None),
        "itl_ms": percentiles(gap for each in outcomes for gap in itl_ms(each)),
        "e2e_ms": percentiles((each.ended_s - each.sent_s) * 1e3 for each in outcomes),
    }


def ttft_ms(outcome: Outcome) -> float:
    return (outcome.chunks[0][0] - outcome.sent_s) * 1e3


def tpot_ms(outcome: Outcome) -> float | None:
    """Mean time of a token after the first chunk; None where no other came."""
    later = outcome.num_tokens - outcome.chunks[0][1] if outcome.chunks else 0
    return (outcome.chunks[-1][0] - outcome.chunks[0][0]) * 1e3 / later if later else None


def itl_ms(outcome: Outcome) -> list[float]:
    return [(after - before) * 1e3 for (before, _), (after, _) in pairwise(outcome.chunks)]


def is_good(outcome: Outcome, targets: Targets) -> bool:
    """Whether a request that ended well met both targets."""
    per_token = tpot_ms(outcome)
    in_time = bool(outcome.chunks) and ttft_ms(outcome) <= targets.ttft_ms
    return in_time and (per_token is None or per_token <= targets.tpot_ms)


def acceptance_length(outcomes: Iterable[Outcome]) -> float:
    """Mean tokens a verify pass commits: 1 (the bonus token) + accepted / rounds."""
    stats = [each.speculation for each in outcomes]
    rounds = sum(each.rounds for each in stats)
    return 1.0 + sum(each.accepted for each in stats) / rounds if rounds else 1.0


def duration_s(outcomes: Sequence[Outcome]) -> float:
    """From the first request to the end of the last."""
    sent = min((each.sent_s for each in outcomes), default=0.0)
    return max((each.ended_s for each in outcomes), default=0.0) - sent


def _group(
    done: Sequence[Outcome], tenant: str, request_class: str, targets: Targets
) -> dict[str, Any]:
    own = [
        each
        for each in done
        if (each.arrival.tenant, each.arrival.request_class) == (tenant, request_class)
    ]
    good = sum(is_good(each, targets) for each in own)
    head = {"tenant": tenant, "class": request_class, "requests": len(own)}
    return {**head, "good_share": _rate(good, len(own)), **latencies(own)}


def _steps(steps: StepTotals, lasted_s: float) -> dict[str, float]:
    return {
        "steps": steps.num_steps,
        "batch_size": _rate(steps.num_requests, steps.num_steps),
        "rows_per_step": _rate(steps.num_rows, steps.num_steps),
        "preemptions": steps.num_preemptions,
        "asked": steps.num_asked,
        "verifiers_busy": _rate(steps.verifiers_busy_s, lasted_s * steps.num_workers),
        "scheduler_busy": _rate(steps.scheduler_busy_s, lasted_s),
    }


def _mean(values: Sequence[float]) -> float:
    return _rate(sum(values), len(values))


def _rate(amount: float, by: float) -> float:
    return amount / by if by else 0.0
