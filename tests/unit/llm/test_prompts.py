"""The forms of prompts, conversations and parameters."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.errors import InvalidArgument
from dspark.llm import SamplingParams
from dspark.llm.prompts import conversations_of, params_of, prompts_of

HELLO = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], "two", (3,)], [(1, 2), "two", (3,)]),
        ({"prompt": "one"}, ["one"]),
        ([{"prompt_token_ids": [1, 2]}, {"prompt": ""}], [(1, 2), ""]),
        ([], []),
    ],
)
def test_every_form_of_a_prompt(given: Any, expected: list[Any]) -> None:
    assert prompts_of(given) == expected


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"bytes", "prompts"),
        (None, "prompts"),
        (["one", 2], "prompts[1]"),
        (["one", []], "prompts[1]"),
        ([[1, 2.5]], "prompts[0]"),
        ([[True]], "prompts[0]"),
        ([{}], "prompts[0]"),
        ([{"prompt": "one", "multi_modal_data": {}}], "prompts[0]"),
        ([{"prompt": "one", "prompt_token_ids": [1]}], "prompts[0]"),
        ([{"prompt": [1]}], "prompts[0].prompt"),
        ([{"prompt_token_ids": "one"}], "prompts[0].prompt_token_ids"),
        ([HELLO], "prompts[0]"),
    ],
)
def test_what_is_no_prompt_is_named(given: Any, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        prompts_of(given)
    assert caught.value.field == name


def test_what_cannot_be_honoured_of_a_prompt_is_named() -> None:
    with pytest.raises(InvalidArgument, match="multi_modal_data cannot be honoured"):
        prompts_of({"prompt": "one", "multi_modal_data": {}})


def test_one_conversation_and_several() -> None:
    assert conversations_of([HELLO]) == [[HELLO]]
    assert conversations_of([[HELLO], [HELLO, HELLO]]) == [[HELLO], [HELLO, HELLO]]
    assert conversations_of([]) == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("hello", "messages"),
        (HELLO, "messages"),
        ([HELLO, "hello"], "messages"),
        ([[HELLO], []], "messages[1]"),
        ([[HELLO], HELLO], "messages[1]"),
    ],
)
def test_what_is_no_conversation_is_named(given: Any, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        conversations_of(given)
    assert caught.value.field == name


def test_parameters_are_for_all_or_for_each() -> None:
    one, two = SamplingParams(seed=1), SamplingParams(seed=2)
    assert params_of(one, 2) == [one, one]
    assert params_of([one, two], 2) == [one, two]
    assert params_of(None, 1) == [SamplingParams()]


@pytest.mark.parametrize("given", [[SamplingParams()], {"seed": 1}, [{"seed": 1}, {}], "greedy"])
def test_parameters_must_fit_the_prompts(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^sampling_params: "):
        params_of(given, 2)
