"""What a caller asks for, on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.client.options import with_whole_calls
from dspark.client.wire import request_to_proto
from dspark.errors import InvalidArgument
from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams
from dspark.v1 import sampling_pb2

HELLO = [{"role": "user", "content": "hi"}]


def test_an_option_that_is_not_given_or_none_stays_unset() -> None:
    request = request_to_proto("hi", {"temperature": None, "stop": None, "speculation": None})
    assert request.text == "hi"
    assert [field.name for field, _ in request.ListFields()] == ["text"]


def test_each_option_lands_in_its_field() -> None:
    request = request_to_proto(
        "hi",
        {
            "model": "m",
            "max_tokens": 5,
            "temperature": 0.5,
            "top_k": 3,
            "top_p": 0.25,
            "min_p": 0.125,
            "seed": 2**64 - 1,
            "stop": ["a", "b"],
            "stop_token_ids": [7, 8],
            "ignore_eos": True,
            "cache_salt": "salt",
            "priority": -2,
            "use_prefix_cache": False,
            "request_class": "batch",
            "user": "u",
            "request_id": "r",
            "timeout": 3.0,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
        },
    )
    sampling = request.sampling
    assert (request.model, request.request_id, request.cache_salt) == ("m", "r", "salt")
    assert (request.priority, request.use_prefix_cache) == (-2, False)
    assert (request.request_class, request.user) == (sampling_pb2.REQUEST_CLASS_BATCH, "u")
    assert list(request.stop_strings) == ["a", "b"]
    assert (request.include_stop_str_in_output, request.skip_special_tokens) == (True, False)
    assert (sampling.max_tokens, sampling.temperature, sampling.top_k) == (5, 0.5, 3)
    assert (sampling.top_p, sampling.min_p, sampling.seed) == (0.25, 0.125, 2**64 - 1)
    assert (list(sampling.stop_token_ids), sampling.ignore_eos) == ([7, 8], True)


def test_zero_and_false_are_values() -> None:
    request = request_to_proto("hi", {"temperature": 0, "seed": 0, "use_prefix_cache": False})
    assert request.sampling.HasField("temperature")
    assert request.sampling.HasField("seed")
    assert request.HasField("use_prefix_cache")


def test_prompt_forms() -> None:
    assert request_to_proto("", {}).WhichOneof("prompt") == "text"
    assert list(request_to_proto((1, 2), {}).token_ids.ids) == [1, 2]
    assert request_to_proto([], {}).WhichOneof("prompt") == "token_ids"
    chat = request_to_proto([{"role": "user", "content": "hi"}], {}).chat.messages
    assert [(message.role, message.content) for message in chat] == [("user", "hi")]


def test_a_conversation_with_tools_in_the_shape_of_openai() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d",
            "parameters": {"type": "object"},
            "strict": True,
        },
    }
    chat = request_to_proto(
        [
            *HELLO,
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "r"},
            {"role": "tool", "tool_call_id": "c1", "content": "1", "name": "f"},
        ],
        {
            "tools": [tool],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "chat_template_kwargs": {"enable_thinking": False},
            "documents": [{"title": "t"}],
        },
    ).chat
    assistant, answer = chat.messages[1:]
    assert (assistant.content, assistant.reasoning) == ("", "r")
    (made,) = assistant.tool_calls
    assert (made.id, made.name, made.arguments) == ("c1", "f", '{"a": 1}')
    assert (answer.tool_call_id, answer.name) == ("c1", "f")
    (offered,) = chat.tools
    assert (offered.name, offered.description, offered.strict) == ("f", "d", True)
    assert offered.parameters == '{"type": "object"}'
    assert chat.tool_choice.function == "f"
    assert not chat.parallel_tool_calls and chat.HasField("parallel_tool_calls")
    assert chat.chat_template_kwargs == '{"enable_thinking": false}'
    assert list(chat.documents) == ['{"title": "t"}']


def test_calls_come_whole_where_the_answer_is_collected() -> None:
    tools: Any = [{"type": "function", "function": {"name": "f"}}]
    assert request_to_proto(HELLO, with_whole_calls({"tools": tools})).chat.whole_tool_calls
    asked = with_whole_calls({"tools": tools, "whole_tool_calls": False})
    assert not request_to_proto(HELLO, asked).chat.whole_tool_calls
    assert with_whole_calls({"seed": 1}) == {"seed": 1}


def test_one_stop_string_is_not_taken_apart() -> None:
    assert list(request_to_proto("x", {"stop": "END"}).stop_strings) == ["END"]


@pytest.mark.parametrize(
    ("value", "enabled", "sources"),
    [
        (True, True, []),
        (False, False, []),
        (SpeculationParams(sources=("suffix",), max_draft_tokens=4), True, ["suffix"]),
    ],
)
def test_speculation(value: bool | SpeculationParams, enabled: bool, sources: list[str]) -> None:
    speculation = request_to_proto("x", {"speculation": value}).speculation
    assert speculation.enabled is enabled
    assert list(speculation.sources) == sources


@pytest.mark.parametrize(
    ("prompt", "options", "field"),
    [
        ("x", {"top_k": -2}, "top_k"),
        ("\ud800", {}, "prompt"),
        ([{"role": "user", "content": "\udcff"}], {}, "prompt"),
        ([{"role": "user", "content": None}], {}, "messages[0]"),
        ("x", {"seed": 2**64}, "seed"),
        ("x", {"temperature": "warm"}, "temperature"),
        ("x", {"stop": [1]}, "stop"),
        ("x", {"request_class": "flex"}, "request_class"),
        ("x", {"request_class": ["batch"]}, "request_class"),
        ("x", {"user": 3}, "user"),
        ("x", {"stop": 1}, "stop"),
        ("x", {"stop_token_ids": [-1]}, "stop_token_ids"),
        ("x", {"speculation": {"enabled": True}}, "speculation"),
        ("x", {"speculation": SpeculationParams(max_draft_tokens=-1)}, "speculation"),
        ([1, -1], {}, "prompt"),
        ([1, "a"], {}, "prompt"),
        (None, {}, "prompt"),
        (b"hi", {}, "prompt"),
        ([{"role": "user"}], {}, "messages[0]"),
        ([{"role": "user", "content": "x"}, {"role": "a", "content": 1}], {}, "messages[1]"),
        ([{"role": "user", "content": "x", "name": 1}], {}, "messages[0]"),
        ([{"role": "user", "content": "x", "names": "n"}], {}, "messages[0]"),
        ([{"role": "a", "tool_calls": [{"id": "c"}]}], {}, "messages[0].tool_calls[0]"),
        (HELLO, {"tools": [{"type": "function"}]}, "tools[0]"),
        (HELLO, {"tools": [{"type": "other", "function": {"name": "f"}}]}, "tools[0]"),
        (HELLO, {"tool_choice": "always"}, "tool_choice"),
        (HELLO, {"chat_template_kwargs": {"a": {1}}}, "chat_template_kwargs"),
        (HELLO, {"documents": ["text"]}, "documents[0]"),
        (HELLO, {"continue_final_message": "yes"}, "continue_final_message"),
        ("x", {"tools": []}, "tools"),
        ([1], {"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_a_value_that_its_field_cannot_hold_is_named(prompt: Any, options: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        request_to_proto(prompt, options)
    assert caught.value.field == field


def test_an_unknown_option_is_a_type_error() -> None:
    options: Any = {"temprature": 1.0}
    with pytest.raises(TypeError, match="temprature"):
        request_to_proto("x", options)


def test_a_class_is_itself_or_its_word() -> None:
    for value in ("interactive", RequestClass.INTERACTIVE):
        message = request_to_proto("x", {"request_class": value})
        assert message.request_class == sampling_pb2.REQUEST_CLASS_INTERACTIVE


def test_top_k_of_minus_1_means_all() -> None:
    assert request_to_proto("x", {"top_k": -1}).sampling.top_k == 0
    assert request_to_proto("x", {"top_k": -1}).sampling.HasField("top_k")


def test_options_that_change_logits_land_in_their_fields() -> None:
    request = request_to_proto(
        "hi",
        {
            "repetition_penalty": 1.5,
            "presence_penalty": -1,
            "frequency_penalty": 0.5,
            "logit_bias": {7: -100, 9: 1.5},
            "bad_words": ["no", [1, 2]],
            "allowed_token_ids": [4, 5],
            "min_tokens": 3,
            "logprobs": 0,
            "prompt_logprobs": 2,
        },
    )
    sampling = request.sampling
    assert (sampling.repetition_penalty, sampling.presence_penalty) == (1.5, -1)
    assert [(b.token_id, b.bias) for b in sampling.logit_bias] == [(7, -100), (9, 1.5)]
    assert list(request.bad_words) == ["no"]
    assert [list(word.token_ids) for word in sampling.bad_words] == [[1, 2]]
    assert (list(sampling.allowed_token_ids), sampling.min_tokens) == ([4, 5], 3)
    assert sampling.HasField("logprobs") and sampling.prompt_logprobs == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logit_bias", [1]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {-1: 1}),
        ("bad_words", "no"),
        ("bad_words", [1]),
        ("bad_words", [[-1]]),
        ("allowed_token_ids", ["a"]),
        ("min_tokens", -1),
        ("logprobs", 1.5),
    ],
)
def test_a_value_that_an_option_cannot_hold_names_it(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        request_to_proto("hi", {field: value})  # type: ignore[misc]
    assert caught.value.field == field
