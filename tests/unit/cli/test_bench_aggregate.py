"""The figures of a benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from dspark.cli.benchmark.aggregate import (
    Comparison,
    Run,
    acceptance_length,
    compare,
    median_run,
    percentiles,
    report,
    source_counts,
    step_medians,
    time_per_token,
)
from dspark.sampling import SourceCounts, SpeculationStats, StepBreakdown
from harness.completions import make_completion


def run_of(*token_ids: tuple[int, ...], wall_s: float = 1.0, speculation: bool = True) -> Run:
    return Run(speculation, 1, tuple(map(make_completion, token_ids)), wall_s)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 101])
def test_percentiles_are_those_of_numpy(size: int) -> None:
    values = np.random.default_rng(size).normal(size=size)
    expected = {f"p{p}": pytest.approx(np.percentile(values, p)) for p in (50, 90, 99)}
    assert percentiles(values.tolist()) == expected


def test_percentiles_of_nothing_are_zero() -> None:
    assert percentiles([]) == {"p50": 0.0, "p90": 0.0, "p99": 0.0}


def test_throughput_is_all_tokens_over_wall_time() -> None:
    run = run_of((1, 2, 3), (4,), wall_s=2.0)
    assert (run.tokens, run.tokens_per_s) == (4, 2.0)


def test_time_per_token_counts_the_later_tokens_only() -> None:
    several_a_chunk = make_completion((1, 2, 3, 4, 5), itl_ms=(30.0, 50.0))
    assert time_per_token([several_a_chunk, make_completion((1,)), make_completion(())]) == [20.0]


def test_acceptance_length_includes_the_bonus_token() -> None:
    stats = [SpeculationStats(rounds=10, accepted=15), SpeculationStats(rounds=20, accepted=0)]
    assert acceptance_length([make_completion(speculation=s) for s in stats]) == 1.5
    assert acceptance_length([make_completion()]) == 1.0


def test_sources_add_up() -> None:
    first = SpeculationStats(sources={"b": SourceCounts(4, 1), "a": SourceCounts(2, 2)})
    second = SpeculationStats(sources={"a": SourceCounts(5, 0)})
    counted = source_counts([make_completion(speculation=s) for s in (first, second)])
    assert list(counted) == ["a", "b"]
    assert counted["a"] == {"drafted": 7, "accepted": 2}
    assert counted["b"] == {"drafted": 4, "accepted": 1}


def test_step_medians_keep_the_parts_apart() -> None:
    steps = [StepBreakdown(1, 10, 8, 2), StepBreakdown(3, 30, 28, 4), StepBreakdown(2, 20, 18, 9)]
    medians = step_medians([make_completion(steps=s) for s in steps])
    assert medians == {"propose": 2, "verify": 20, "forward": 18, "ahead": 0, "overhead": 4}


def test_the_median_run_is_one_of_the_runs() -> None:
    runs = [run_of((1,) * n) for n in (5, 1, 3)]
    assert median_run(runs).tokens == 3
    assert median_run(runs[:2]).tokens == 1


def test_comparison_is_by_token_ids_and_order() -> None:
    plain = run_of((1, 2), (3, 4), speculation=False)
    assert compare(run_of((1, 2), (3, 4)), plain) == Comparison(2, 0)
    assert compare(run_of((3, 4), (1, 2)), plain) == Comparison(2, 2)
    assert compare(run_of((1, 2), (3,)), plain) == Comparison(2, 1)
    assert Comparison(2, 1) + Comparison(3, 0) == Comparison(5, 1)


def test_runs_over_different_requests_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="longer"):
        compare(run_of((1,)), run_of((1,), (2,)))


def test_the_report_has_the_promised_fields() -> None:
    assert list(report(run_of((1, 2, 3)))) == [
        "speculation",
        "concurrency",
        "requests",
        "tokens",
        "tokens_per_s",
        "ttft_ms",
        "itl_ms",
        "tpot_ms",
        "acceptance_length",
        "sources",
        "step_ms",
    ]
    assert report(run_of((1,), speculation=False))["speculation"] == "off"
