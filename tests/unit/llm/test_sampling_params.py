"""SamplingParams with vLLM's names: each field is honoured or refused by its name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from dspark.client import GenerateOptions
from dspark.errors import DSparkError, InvalidArgument, UnsupportedField
from dspark.llm import SamplingParams, SpeculationParams, StructuredOutputsParams
from dspark.structured_output import StructuredOutput

SENT: dict[str, tuple[Any, str, Any]] = {
    "presence_penalty": (0.5, "presence_penalty", 0.5),
    "frequency_penalty": (0.25, "frequency_penalty", 0.25),
    "repetition_penalty": (1.5, "repetition_penalty", 1.5),
    "temperature": (0.0, "temperature", 0.0),
    "top_p": (0.5, "top_p", 0.5),
    "top_k": (-1, "top_k", -1),
    "min_p": (0.25, "min_p", 0.25),
    "seed": (7, "seed", 7),
    "stop": (["a", "b"], "stop", ["a", "b"]),
    "stop_token_ids": ([3], "stop_token_ids", [3]),
    "ignore_eos": (True, "ignore_eos", True),
    "max_tokens": (5, "max_tokens", 5),
    "min_tokens": (4, "min_tokens", 4),
    "logprobs": (0, "logprobs", 0),
    "prompt_logprobs": (2, "prompt_logprobs", 2),
    "skip_special_tokens": (False, "skip_special_tokens", False),
    "include_stop_str_in_output": (True, "include_stop_str_in_output", True),
    "structured_outputs": (
        StructuredOutputsParams(regex="a+"),
        "structured",
        StructuredOutput.regex("a+"),
    ),
    "logit_bias": ({3: -5.0}, "logit_bias", {3: -5.0}),
    "allowed_token_ids": ([3, 4], "allowed_token_ids", [3, 4]),
    "bad_words": (["no"], "bad_words", ["no"]),
    "speculation": (SpeculationParams(enabled=False), "speculation", SpeculationParams(False)),
}
REFUSED = {
    "detokenize": False,
    "truncate_prompt_tokens": 5,
    "logits_processors": [print],
    "extra_args": {"a": 1},
}
ELSEWHERE = {"n", "spaces_between_special_tokens"}
WRONG = [
    ("n", 0),
    ("n", True),
    ("temperature", -1.0),
    ("temperature", "hot"),
    ("temperature", float("nan")),
    ("top_p", 0.0),
    ("top_k", -2),
    ("top_k", 1.5),
    ("min_p", 1.5),
    ("seed", -2),
    ("stop_token_ids", [-1]),
    ("stop", [3]),
    ("max_tokens", 0),
    ("min_tokens", 17),
    ("presence_penalty", 2.5),
    ("frequency_penalty", -2.5),
    ("repetition_penalty", 0.0),
    ("logprobs", -1),
    ("prompt_logprobs", 21),
    ("logit_bias", {3: 101.0}),
    ("logit_bias", [3]),
    ("bad_words", "no"),
    ("allowed_token_ids", []),
    ("structured_outputs", {"regex": "a"}),
    ("speculation", "off"),
    ("skip_special_tokens", "maybe"),
]


def test_the_defaults_are_those_of_vllm() -> None:
    params = SamplingParams()
    assert (params.n, params.max_tokens, params.min_tokens) == (1, 16, 0)
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.0, 1.0, 0, 0.0)
    assert (params.presence_penalty, params.frequency_penalty) == (0.0, 0.0)
    assert params.repetition_penalty == 1.0
    assert params.seed is None and params.logprobs is None and params.stop is None
    assert params.skip_special_tokens and not params.include_stop_str_in_output


def test_these_tests_know_every_field() -> None:
    names = {field.name for field in fields(SamplingParams)}
    assert names == set(SENT) | set(REFUSED) | ELSEWHERE


@pytest.mark.parametrize("name", SENT)
def test_a_field_is_sent(name: str) -> None:
    value, option, expected = SENT[name]
    options = SamplingParams(**{name: value}).client_options()
    assert options[option] == expected  # type: ignore[literal-required]
    assert set(options) <= set(GenerateOptions.__annotations__)


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_that_is_not_honoured_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        SamplingParams(**{name: REFUSED[name]})
    assert caught.value.field == name


@pytest.mark.parametrize("name", ["best_of", "use_beam_search", "output_kind", "temprature"])
def test_an_unknown_field_is_refused_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        SamplingParams(**{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        SamplingParams(**{name: value})
    assert caught.value.field.partition(".")[0] == name


def test_a_seed_of_minus_one_is_drawn_and_no_max_tokens_allow_any_min_tokens() -> None:
    assert SamplingParams(seed=-1).client_options()["seed"] is None
    assert SamplingParams(max_tokens=None, min_tokens=500).max_tokens is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"json": {"type": "object"}}, StructuredOutput.json_schema({"type": "object"})),
        ({"json": '{"type": "object"}'}, StructuredOutput.json_schema({"type": "object"})),
        ({"choice": ["yes", "no"]}, StructuredOutput.choice(["yes", "no"])),
        ({"grammar": 'start: "a"'}, StructuredOutput.grammar('start: "a"')),
        (
            {"json_object": True, "disable_any_whitespace": False},
            StructuredOutput.json_object(any_whitespace=True),
        ),
    ],
)
def test_each_form_of_a_structured_output(given: Any, expected: StructuredOutput) -> None:
    assert StructuredOutputsParams(**given).output == expected


@pytest.mark.parametrize(
    "given",
    [{}, {"json_object": False}, {"regex": "a", "grammar": "b"}, {"choice": "yes"}],
)
def test_a_structured_output_has_one_form(given: Any) -> None:
    with pytest.raises(DSparkError, match="structured_outputs"):
        StructuredOutputsParams(**given)


def test_a_schema_must_be_json() -> None:
    with pytest.raises(InvalidArgument, match=r"structured_outputs\.json"):
        SamplingParams(structured_outputs=StructuredOutputsParams(json={"a": object()}))
