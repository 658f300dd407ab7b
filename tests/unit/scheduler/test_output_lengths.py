"""Expected outputs follow what was generated before."""

from __future__ import annotations

import pytest

from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.request import Request


def make(
    max_tokens: int,
    num_generated: int = 0,
    request_class: RequestClass = RequestClass.INTERACTIVE,
) -> Request:
    sampling = SamplingParams(max_tokens=max_tokens)
    request = Request(RequestSpec("r", (1, 2), sampling, request_class=request_class), 0)
    request.token_ids += [7] * num_generated
    return request


def test_before_anything_is_known_it_is_what_was_asked_for() -> None:
    assert OutputLengths().expected(make(300)) == 300


def test_it_comes_to_what_requests_of_that_size_use() -> None:
    lengths = OutputLengths()
    for _ in range(200):
        lengths.observe(make(1000, 100))
    assert lengths.expected(make(1000)) == pytest.approx(100, rel=0.1)
    assert lengths.expected(make(900)) == pytest.approx(90, rel=0.1)
    # Others are not judged by them.
    assert lengths.expected(make(100)) == 100
    assert lengths.expected(make(1000, request_class=RequestClass.BATCH)) == 1000


def test_a_request_that_is_over_its_guess_has_at_least_one_token_left() -> None:
    lengths = OutputLengths()
    for _ in range(200):
        lengths.observe(make(1000, 100))
    assert lengths.expected(make(1000, 500)) == 501
