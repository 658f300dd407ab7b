from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from dspark.errors import InvalidArgument
from dspark.sampling import MAX_TEMPERATURE, FinishReason, SamplingParams

ACCEPTED: list[dict[str, Any]] = [
    {},
    {"temperature": 0.0},
    {"temperature": MAX_TEMPERATURE},
    {"top_k": 0},
    {"top_k": 2**31},
    {"top_p": 1e-9},
    {"min_p": 0.0},
    {"min_p": 1.0},
    {"seed": 2**64 - 1},
    {"max_tokens": 1},
    {"stop_token_ids": frozenset({0, 99})},
    {"repetition_penalty": 1e-3},
    {"repetition_penalty": 1e3},
    {"presence_penalty": -2.0, "frequency_penalty": 2.0},
    {"logit_bias": ((0, -100.0), (99, 100))},
    {"logit_bias": tuple((token, 1.0) for token in range(100))},
    {"bad_words": ((1,), (2,) * 256)},
    {"allowed_token_ids": frozenset(range(100))},
    {"min_tokens": 16},
    {"logprobs": 0, "prompt_logprobs": 20},
]
REFUSED: list[tuple[str, Any]] = [
    ("temperature", -0.1),
    ("temperature", MAX_TEMPERATURE + 1),
    ("top_k", -1),
    ("top_p", 0.0),
    ("top_p", 1.01),
    ("min_p", -0.01),
    ("min_p", 1.01),
    ("seed", -1),
    ("seed", 2**64),
    ("max_tokens", 0),
    ("stop_token_ids", frozenset({100})),
    ("stop_token_ids", frozenset({-1})),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", -1.0),
    ("repetition_penalty", 1001.0),
    ("logit_bias", ((100, 1.0),)),
    ("logit_bias", ((1, 101.0),)),
    ("logit_bias", ((1, math.nan),)),
    ("logit_bias", ((1, 1.0), (1, 1.0))),
    ("bad_words", ((),)),
    ("bad_words", ((1,) * 257,)),
    ("bad_words", ((1,),) * 1025),
    ("bad_words", ((100,),)),
    ("allowed_token_ids", frozenset({100})),
    ("min_tokens", -1),
    ("min_tokens", 17),
    ("logprobs", 21),
    ("logprobs", -1),
    ("prompt_logprobs", 21),
    *itertools.product(
        ("repetition_penalty", "presence_penalty", "frequency_penalty"), (math.nan, math.inf)
    ),
    *itertools.product(("presence_penalty", "frequency_penalty"), (-2.1, 2.1)),
    *itertools.product(("temperature", "top_p", "min_p"), (math.nan, math.inf)),
]


@pytest.mark.parametrize("values", ACCEPTED, ids=str)
def test_values_in_range_pass(values: dict[str, Any]) -> None:
    SamplingParams(**values).validate(vocab_size=100)


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=str)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        SamplingParams(**{field: value}).validate(vocab_size=100)
    assert caught.value.field == field
    assert caught.value.metadata == {"field": field}


def test_stop_token_ids_need_a_vocabulary_to_be_judged() -> None:
    SamplingParams(stop_token_ids=frozenset({10**6})).validate()


def test_finish_reasons_are_the_words_of_the_public_surface() -> None:
    assert {reason.value for reason in FinishReason} == {"stop", "length", "abort", "error"}
