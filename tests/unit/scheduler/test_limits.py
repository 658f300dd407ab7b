"""Requests that can never be served are refused by name, before they queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dspark.errors import ContextLength, InvalidArgument
from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.scheduler.limits import Limits

LIMITS = Limits(vocab_size=10, max_model_len=20, max_pool_tokens=64, sources=("suffix",))


def make(length: int = 3, max_tokens: int = 5, **fields: Any) -> RequestSpec:
    return RequestSpec("r", (1,) * length, SamplingParams(max_tokens=max_tokens), **fields)


@pytest.mark.parametrize("length", [20, 21, 200])
def test_a_prompt_must_leave_room_for_one_token(length: int) -> None:
    with pytest.raises(ContextLength) as caught:
        LIMITS.check(make(length))
    assert caught.value.metadata == {"field": "prompt", "limit": "20", "given": str(length)}
    assert "model" in caught.value.message


def test_the_longest_prompt_yields_one_token() -> None:
    assert LIMITS.check(make(19, max_tokens=50)).sampling.max_tokens == 1


def test_a_prompt_must_fit_the_pool() -> None:
    small = Limits(vocab_size=10, max_model_len=20, max_pool_tokens=8)
    assert small.check(make(7)).sampling.max_tokens == 1
    with pytest.raises(ContextLength) as caught:
        small.check(make(8))
    assert caught.value.metadata["limit"] == "8" and "KV pool" in caught.value.message


def test_max_tokens_is_clamped_and_the_rest_kept() -> None:
    assert LIMITS.check(make(3, max_tokens=1000)).sampling.max_tokens == 17
    assert LIMITS.check(make(3, max_tokens=5)) == make(3, max_tokens=5)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RequestSpec("", (1,), SamplingParams()), "request_id"),
        (RequestSpec("r", (), SamplingParams()), "prompt_token_ids"),
        (RequestSpec("r", (1, 10), SamplingParams()), "prompt_token_ids"),
        (
            RequestSpec("r", (1,), SamplingParams(), committed_token_ids=(10,)),
            "committed_token_ids",
        ),
        (RequestSpec("r", (1,), SamplingParams(top_p=0)), "top_p"),
        (RequestSpec("r", (1,), SamplingParams(max_tokens=0)), "max_tokens"),
        (RequestSpec("r", (1,), SamplingParams(stop_token_ids=frozenset({99}))), "stop_token_ids"),
        (make(speculation=SpeculationParams(sources=("medusa",))), "speculation.sources"),
    ],
)
def test_bad_fields_are_named(spec: RequestSpec, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        LIMITS.check(spec)
    assert caught.value.field == field


def test_sources_are_not_judged_before_they_are_known() -> None:
    unknown = Limits(vocab_size=10, max_model_len=20, max_pool_tokens=64)
    spec = make(speculation=SpeculationParams(sources=("medusa",)))
    assert unknown.check(spec) == spec


def test_min_tokens_is_clamped_with_max_tokens() -> None:
    spec = make(3, max_tokens=1000)
    asked = replace(spec, sampling=replace(spec.sampling, min_tokens=900))
    clamped = LIMITS.check(asked).sampling
    assert (clamped.max_tokens, clamped.min_tokens) == (17, 17)
