"""Running averages of what a source costs."""

from __future__ import annotations

import pytest

from dspark.candidates.running_rate import RunningRate


def test_nothing_is_published_before_the_first_call() -> None:
    assert RunningRate().of("a") is None


def test_a_call_is_shared_by_its_requests_and_by_its_nodes() -> None:
    rate = RunningRate()
    rate.add(num_requests=4, num_nodes=20, cost_ns=10_000_000)
    published = rate.of("a")
    assert published is not None
    assert (published.name, published.ms_per_request, published.ms_per_node) == ("a", 2.5, 0.5)


def test_calls_without_nodes_still_cost_their_requests() -> None:
    rate = RunningRate()
    rate.add(2, 0, 4_000_000)
    published = rate.of("a")
    assert published is not None
    assert (published.ms_per_request, published.ms_per_node) == (2.0, 0.0)
    rate.add(0, 0, 1_000_000_000)
    assert rate.of("a") == published


def test_averages_follow_the_calls() -> None:
    rate = RunningRate()
    rate.add(1, 1, 50_000_000)
    for _ in range(200):
        rate.add(1, 2, 1_000_000)
    published = rate.of("a")
    assert published is not None
    assert published.ms_per_request == pytest.approx(1.0, rel=0.01)
    assert published.ms_per_node == pytest.approx(0.5, rel=0.01)
