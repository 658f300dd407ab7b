"""From a worker's requests to the figures on which placement decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.batcher import Batcher
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.worker_view import MAX_SAMPLED, job_of, view_of


def worker(num_blocks: int = 1000) -> Any:
    live = LiveRequests(10_000, Numbers(lambda: 1), Totals())
    batcher = Batcher(max_num_seqs=32, max_rows=512, block_size=16, num_blocks=num_blocks)
    books = StepBooks()
    return SimpleNamespace(
        name="w", live=live, batcher=batcher, knowledge=None, waves=None, steps=books
    )


def spec(index: int, max_tokens: int = 50) -> RequestSpec:
    return RequestSpec(f"r{index}", tuple(range(100)), SamplingParams(max_tokens=max_tokens))


def test_an_idle_worker_has_all_its_places() -> None:
    view = view_of(worker(), OutputLengths())
    assert (view.num_requests, view.num_uncached, view.num_slots) == (0, 0, 32)


def test_what_is_known_and_expected_is_added_up() -> None:
    one = worker()
    first, second = (one.live.submit(spec(i)) for i in range(2))
    one.live.admit(first)
    first.num_computed_tokens = 60
    second.num_likely_cached = 96
    view = view_of(one, OutputLengths())
    assert (view.num_requests, view.num_uncached, view.num_output) == (2, 40 + 4, 100.0)


def test_a_small_pool_has_few_places() -> None:
    one = worker(num_blocks=30)
    for index in range(2):
        one.live.submit(spec(index))
    assert view_of(one, OutputLengths()).num_slots == 480 // 150


def test_a_long_queue_is_sampled() -> None:
    one = worker()
    for index in range(MAX_SAMPLED * 3):
        one.live.submit(spec(index))
    view = view_of(one, OutputLengths())
    assert view.num_requests == MAX_SAMPLED * 3
    assert view.num_uncached == pytest.approx(MAX_SAMPLED * 300)


def test_expected_output_follows_the_requests_that_end() -> None:
    outputs = OutputLengths()
    request = worker().live.submit(spec(0, max_tokens=400))
    assert job_of(request, outputs).num_output == 128.0
    ended = worker().live.submit(spec(1, max_tokens=400))
    ended.token_ids.extend(range(20))
    for _ in range(200):
        outputs.observe(ended)
    assert job_of(request, outputs).num_output == pytest.approx(20.0, rel=0.01)
    assert outputs.left(7) == 7.0
