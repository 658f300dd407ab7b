"""Requests to simulate: their lengths, and when they come."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import pytest

from dspark.cli.failure import CliError
from dspark.cli.simulate.keyed_draws import uniform
from dspark.cli.simulate.lengths import LogNormal, Uniform, parse_lengths
from dspark.cli.simulate.load import Prefixes
from dspark.cli.simulate.workload import Shape, open_loop, read_arrivals, scaled

SHAPE = Shape(Uniform(10, 20), Uniform(5, 5), seed=3)


def test_poisson_arrivals_have_their_rate_and_its_spread() -> None:
    arrivals = open_loop(SHAPE, 4000, rate=5.0)
    gaps = [after.arrival_s - before.arrival_s for before, after in pairwise(arrivals)]
    assert fmean(gaps) == pytest.approx(0.2, rel=0.05)
    # Of exponential gaps the standard deviation is the mean.
    spread = fmean((gap - fmean(gaps)) ** 2 for gap in gaps) ** 0.5
    assert spread == pytest.approx(0.2, rel=0.08)


def test_bursts_have_the_same_rate_in_groups() -> None:
    arrivals = open_loop(SHAPE, 4000, rate=5.0, burst=8)
    assert arrivals[-1].arrival_s == pytest.approx(4000 / 5.0, rel=0.15)
    assert len({arrival.arrival_s for arrival in arrivals}) == 500
    assert arrivals[0].arrival_s == arrivals[7].arrival_s < arrivals[8].arrival_s


def test_requests_are_alike_under_every_load() -> None:
    slow, fast = open_loop(SHAPE, 50, rate=1.0), open_loop(SHAPE, 50, rate=9.0)
    assert [a.prompt_tokens for a in slow] == [a.prompt_tokens for a in fast]
    assert {a.prompt_tokens for a in slow} <= set(range(10, 21))


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("7", Uniform(7, 7)), ("64-512", Uniform(64, 512)), ("256~0.8", LogNormal(256, 0.8))],
)
def test_lengths_are_read(text: str, lengths: object) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize("text", ["", "0", "5-2", "a", "3-", "-3", "9~-1", "9~", "1.5"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no length"):
        parse_lengths(text)


def test_log_normal_lengths_have_their_median_and_a_tail() -> None:
    drawn = [LogNormal(100, 1.0).draw(uniform(1, n)) for n in range(2000)]
    assert median(drawn) == pytest.approx(100, rel=0.1)
    assert max(drawn) > 1000 and min(drawn) >= 1


def test_a_trace_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"arrival_s": 2, "prompt_tokens": 3, "output_tokens": 4, "tenant": "b"}\n\n'
        '{"arrival_s": 1.5, "prompt_tokens": 5, "output_tokens": 6}\n'
    )
    arrivals = read_arrivals(path)
    assert [(a.arrival_s, a.prompt_tokens, a.tenant) for a in arrivals] == [
        (1.5, 5, ""),
        (2, 3, "b"),
    ]
    assert [a.arrival_s for a in scaled(arrivals, 2.0)] == [0.75, 1.0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no requests"),
        ("{", "line 1 is no JSON"),
        ('{"arrival_s": 1, "prompt_tokens": 5}', "line 1 lacks a field"),
        ('{"arrival_s": 1, "prompt_tokens": 0, "output_tokens": 1}', "prompt_tokens must be at"),
        ('{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": "a"}', "line 1.output_tokens"),
        ('{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 1, "x": 1}', "no field 'x'"),
        (
            '{"prompt_tokens": 5, "output_tokens": 1, "request_class": "vip"}',
            "request_class must be one of interactive, batch",
        ),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(content)
    with pytest.raises(CliError, match=problem):
        read_arrivals(path)


def test_prompts_begin_alike_only_where_they_share_a_prefix() -> None:
    plain = [Prefixes().prompt(number, 32) for number in range(1000)]
    assert len({prompt[:16] for prompt in plain}) == 1000
    shared = [Prefixes(24, groups=3).prompt(number, 32) for number in range(100)]
    assert len({prompt[:24] for prompt in shared}) == 3
    assert len(set(shared)) == 100 and {len(prompt) for prompt in shared} == {32}
