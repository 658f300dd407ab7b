"""Each field: accepted and mapped, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway import unsupported_fields
from dspark.gateway.client_request import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from dspark.gateway.openai_requests import (
    chat_request,
    completion_request,
    parse_chat,
    parse_completion,
)
from dspark.gateway.shortened import MAX_CHARS
from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams

HELLO = {"role": "user", "content": "hi"}
SAMPLING = {
    "max_tokens": 7,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 4,
    "min_p": 0.1,
    "seed": 2**64 - 1,
    "stop_token_ids": [1, 2],
    "ignore_eos": True,
    "cache_salt": "tenant",
    "priority": -3,
    "use_prefix_cache": False,
}
WRONG_TYPES: list[tuple[str, Any]] = [
    *[
        (name, value)
        for name in ("max_tokens", "top_k", "seed", "n")
        for value in ("1", 1.5, True, [1])
    ],
    *[(name, value) for name in ("temperature", "top_p", "min_p") for value in ("1", True, {})],
    *[(name, value) for name in ("ignore_eos", "stream", "return_token_ids") for value in (1, "t")],
    *[(name, value) for name in ("model", "user", "cache_salt") for value in (1, ["x"], "\ud800")],
    *[("stop", value) for value in (1, [1], ["a", None], {"a": 1}, "\ud800")],
    *[("stop_token_ids", value) for value in (3, "3")],
    *[("min_tokens", value) for value in ("1", 1.5, True)],
    *[("presence_penalty", value) for value in ("1", True, float("nan"))],
    *[("bad_words", value) for value in ("x", [1], {"a": 1}, ["\ud800"])],
    *[("allowed_token_ids", value) for value in (3, "3", [])],
    *[("prompt_logprobs", value) for value in (True, "1", 1.0)],
    *[("speculation", value) for value in (True, "on", [])],
    *[("stream_options", value) for value in (True, [])],
    ("temperature", float("nan")),
    ("temperature", float("inf")),
    ("temperature", 10**400),
]
# A value of each unsupported field that asks for something.
ASKING: dict[str, Any] = {}


def _completion(**fields: Any) -> Any:
    return completion_request(parse_completion({"prompt": "hi", **fields}), "r1")


def _chat(**fields: Any) -> Any:
    return chat_request(parse_chat({"messages": [HELLO], **fields}), "r1")


SURFACES = pytest.mark.parametrize("parse", [_completion, _chat])


@SURFACES
def test_sampling_fields_are_mapped(parse: Any) -> None:
    client = parse(**SAMPLING, model="m", user="u")
    for name, value in SAMPLING.items():
        expected = tuple(value) if isinstance(value, list) else value
        assert getattr(client, name) == expected
    assert (client.request_id, client.model) == ("r1", "m")


@SURFACES
def test_unset_and_null_mean_the_same(parse: Any) -> None:
    names = [*SAMPLING, "model", "user", "stop", "stream", "stream_options", "speculation"]
    assert parse(**dict.fromkeys(names)) == parse()


@SURFACES
@pytest.mark.parametrize(
    ("stop", "expected"), [("a", ("a",)), (["a", "b"], ("a", "b")), ([], ()), (None, ())]
)
def test_stop_is_a_string_or_a_list(parse: Any, stop: Any, expected: tuple[str, ...]) -> None:
    assert parse(stop=stop).stop_strings == expected


@SURFACES
def test_speculation_is_mapped(parse: Any) -> None:
    options = {"enabled": False, "sources": ["suffix"], "max_draft_tokens": 3}
    assert parse(speculation=options).speculation == SpeculationParams(False, ("suffix",), 3)
    assert parse(speculation={}).speculation == SpeculationParams()


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("text", TextPrompt("text")),
        (["text"], TextPrompt("text")),
        ([1, 2], TokenPrompt((1, 2))),
        ([[1, 2]], TokenPrompt((1, 2))),
        ("", TextPrompt("")),
        ([""], TextPrompt("")),
        ([], TokenPrompt(())),
        ([[]], TokenPrompt(())),
    ],
)
def test_prompts_are_text_or_token_ids(prompt: Any, expected: Any) -> None:
    assert _completion(prompt=prompt).prompt == expected


@pytest.mark.parametrize(
    "prompt",
    [None, 3, 1.5, True, {}, ["a", None], [[1], 2], [1, "a"], [[1, "a"]], [1.5], [[[1]]], [None]],
)
def test_other_prompts_are_refused_by_name(prompt: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        _completion(prompt=prompt)
    assert caught.value.field == "prompt"


def test_several_prompts_are_requests_of_their_own_and_named_in_errors() -> None:
    body = parse_completion({"prompt": ["a", [1, 2], ""], "seed": 5})
    requests = [completion_request(body, "r1", index) for index in range(3)]
    assert [request.prompt for request in requests] == [
        TextPrompt("a", "prompt[0]"),
        TokenPrompt((1, 2), "prompt[1]"),
        TextPrompt("", "prompt[2]"),
    ]
    assert {request.seed for request in requests} == {5}


def test_continuous_usage_needs_usage() -> None:
    options = {"continuous_usage_stats": True}
    with pytest.raises(InvalidArgument, match=r"stream_options\.continuous_usage_stats"):
        _completion(stream=True, stream_options=options)
    _completion(stream=True, stream_options={**options, "include_usage": True})


@pytest.mark.parametrize(
    ("parse", "field"), [(parse_completion, "prompt"), (parse_chat, "messages")]
)
def test_a_missing_prompt_is_named(parse: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse({"model": "m"})
    assert caught.value.field == field


@SURFACES
@pytest.mark.parametrize(("field", "value"), WRONG_TYPES)
def test_a_wrong_type_is_refused_by_name(parse: Any, field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(**{field: value})
    assert caught.value.field.partition("[")[0] == field


@SURFACES
@pytest.mark.parametrize(
    "fields",
    [
        {"stop": "a\ud800"},
        {"stop": ["a", "\udfff"]},
        {"model": "\ud800"},
        {"cache_salt": "\ud800"},
        {"speculation": {"sources": ["\ud800"]}},
    ],
)
def test_a_lone_surrogate_is_called_so(parse: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        parse(**fields)


@pytest.mark.parametrize("prompt", ["a\ud800", ["\udfff"]])
def test_a_lone_surrogate_in_a_prompt_is_called_so(prompt: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"prompt: .*lone surrogate"):
        _completion(prompt=prompt)


@SURFACES
def test_a_long_name_is_shortened(parse: Any) -> None:
    for fields in ({"k" * 5000: 1}, {"speculation": {"k" * 5000: 1}}):
        with pytest.raises(InvalidArgument) as caught:
            parse(**fields)
        assert caught.value.field.endswith("kkk…")
        assert len(caught.value.field) == MAX_CHARS + 1
        assert len(caught.value.message) < 200


@SURFACES
@pytest.mark.parametrize("field", ["speculation", "stream_options"])
def test_an_object_is_asked_for_in_the_words_of_json(parse: Any, field: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}: must be an object"):
        parse(**{field: 1})


@pytest.mark.parametrize("message", [None, 1, "x", []])
def test_a_message_is_asked_for_in_the_words_of_json(message: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"messages\[0\]: must be an object"):
        _chat(messages=[message])


@SURFACES
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"temprature": 1}, "temprature"),
        ({"str": 1}, "str"),
        ({"speculation": {"depth": 1}}, "speculation.depth"),
        ({"speculation": {"sources": [1]}}, "speculation.sources[0]"),
        ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stop_token_ids": [1, "2"]}, "stop_token_ids[1]"),
    ],
)
def test_an_unknown_or_misplaced_field_is_refused_by_name(
    parse: Any, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(**fields)
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({**HELLO, "colour": 1}, "messages[1].colour"),
        ({"role": "user"}, "messages[1].content"),
        ({"content": "x"}, "messages[1].role"),
        ({"role": 1, "content": "x"}, "messages[1].role"),
        ({"role": "user", "content": None}, "messages[1].content"),
        ({"role": "user", "content": 3}, "messages[1].content"),
        ({"role": "user", "content": ["x"]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0].text"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[1].content[0].type"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "bold": 1}]},
            "messages[1].content[0].bold",
        ),
        ("x", "messages[1]"),
        ({**HELLO, "function_call": {}}, "messages[1].function_call.name"),
    ],
)
def test_a_bad_message_is_refused_by_path(message: Any, path: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        _chat(messages=[HELLO, message])
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({**HELLO, "refusal": "no"}, "messages[0].refusal"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            "messages[0].content[0].type",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]},
            "messages[0].content[0].cache_control",
        ),
    ],
)
def test_an_unsupported_part_of_a_message_is_refused_by_path(message: Any, path: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        _chat(messages=[message])
    assert caught.value.field == path


@pytest.mark.parametrize("messages", [[], None, "hi", {"role": "user"}])
def test_messages_are_a_filled_list(messages: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        _chat(messages=messages)
    assert caught.value.field == "messages"


def test_content_parts_are_joined_by_line_breaks() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    client = _chat(
        messages=[{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    )
    assert client.prompt == ChatPrompt((ChatMessage("system", "s"), ChatMessage("user", "a\nb")))


def test_max_completion_tokens_is_a_chat_name_of_max_tokens() -> None:
    assert _chat(max_completion_tokens=5).max_tokens == 5
    assert _chat(max_completion_tokens=5, max_tokens=5).max_tokens == 5
    for parse, fields in ((_chat, {"max_tokens": 4}), (_completion, {})):
        with pytest.raises(InvalidArgument) as caught:
            parse(max_completion_tokens=5, **fields)
        assert caught.value.field == "max_completion_tokens"


TABLES = [
    *[(_completion, *row) for row in unsupported_fields.COMPLETION.items()],
    *[(_chat, *row) for row in unsupported_fields.CHAT.items()],
]


@pytest.mark.parametrize(("parse", "field", "neutral"), TABLES)
def test_an_unsupported_field_is_accepted_only_where_it_changes_nothing(
    parse: Any, field: str, neutral: tuple[Any, ...]
) -> None:
    for value in (None, *neutral):
        assert parse(**{field: value}) == parse()
    for value in (ASKING.get(field, "something"), ["x"], 7):
        with pytest.raises(UnsupportedField) as caught:
            parse(**{field: value})
        assert caught.value.field == field


@SURFACES
def test_booleans_are_not_numbers(parse: Any) -> None:
    for field, value in (("n", True), ("presence_penalty", False), ("logit_bias", {"7": False})):
        with pytest.raises(InvalidArgument) as caught:
            parse(**{field: value})
        assert caught.value.field == field


@SURFACES
@pytest.mark.parametrize("field", ["include_obfuscation"])
def test_unsupported_stream_options(parse: Any, field: str) -> None:
    options = {"include_usage": True, field: False}
    assert parse(stream=True, stream_options=options) == parse()
    with pytest.raises(UnsupportedField) as caught:
        parse(stream=True, stream_options={field: True})
    assert caught.value.field == f"stream_options.{field}"


@SURFACES
@pytest.mark.parametrize("bias", [{}, {"7": 0}, {"7": 0.0, "9": 0}, None])
def test_a_logit_bias_of_zeros_is_accepted(parse: Any, bias: Any) -> None:
    assert parse(logit_bias=bias) == parse()


@SURFACES
@pytest.mark.parametrize(
    "bias", [{"x": 1}, {"-7": 1}, {"": 1}, {"1" * 11: 1}, {"7": None}, {"7": "0"}, [], 0]
)
def test_a_malformed_logit_bias_is_refused(parse: Any, bias: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(logit_bias=bias)
    assert caught.value.field == "logit_bias"


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "auto"},
        {"tool_choice": "none", "tools": []},
        {"parallel_tool_calls": True},
        {"parallel_tool_calls": False, "tools": None},
    ],
)
def test_how_tools_are_called_changes_nothing_without_tools(fields: dict[str, Any]) -> None:
    assert _chat(**fields) == _chat()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "messages: is required"),
        ({"messages": []}, "messages: must have at least one item"),
        ({"messages": "hi"}, "messages: must be a list"),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is required"),
        ({"messages": [{"role": 1, "content": "x"}]}, "messages[0].role: must be a string"),
        ({"max_tokens": 1.0}, "max_tokens: must be an integer"),
        ({"temperature": "1"}, "temperature: must be a number"),
        ({"stream": 1}, "stream: must be true or false"),
    ],
)
def test_a_problem_is_told_in_the_words_of_json(fields: dict[str, Any], message: str) -> None:
    given = (
        {"messages": [{"role": "user", "content": "hi"}]} if fields.keys() - {"messages"} else {}
    )
    with pytest.raises(InvalidArgument) as caught:
        parse_chat(given | fields)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("tier", "request_class"),
    [
        (None, RequestClass.INTERACTIVE),
        ("auto", RequestClass.INTERACTIVE),
        ("default", RequestClass.INTERACTIVE),
        ("flex", RequestClass.BATCH),
    ],
)
def test_a_service_tier_is_a_class(tier: str | None, request_class: RequestClass) -> None:
    assert _completion(service_tier=tier).request_class is request_class
    chat = chat_request(parse_chat({"messages": [HELLO], "service_tier": tier}), "r1")
    assert chat.request_class is request_class


@pytest.mark.parametrize("tier", ["priority", "scale", "", "FLEX"])
def test_a_tier_that_there_is_none_of_is_refused_by_name(tier: str) -> None:
    with pytest.raises(UnsupportedField, match="auto, default, flex") as caught:
        _completion(service_tier=tier)
    assert caught.value.field == "service_tier"


def test_a_user_is_passed_on() -> None:
    assert (_completion(user="u").user, _completion(user=None).user) == ("u", "")


@SURFACES
def test_options_that_change_logits_are_mapped(parse: Any) -> None:
    client = parse(
        repetition_penalty=1.5,
        presence_penalty=-1,
        frequency_penalty=0.5,
        logit_bias={"7": -100, "9": 1.5, "11": 0},
        bad_words=["no", "never"],
        allowed_token_ids=[1, 2],
        min_tokens=3,
        prompt_logprobs=0,
    )
    assert client.repetition_penalty == 1.5
    assert (client.presence_penalty, client.frequency_penalty) == (-1, 0.5)
    assert client.logit_bias == ((7, -100), (9, 1.5))
    assert client.bad_word_texts == ("no", "never")
    assert (client.allowed_token_ids, client.min_tokens) == ((1, 2), 3)
    assert client.prompt_logprobs == 0


def test_logprobs_are_a_number_for_completions_and_two_fields_for_chat() -> None:
    assert _completion().logprobs is None
    assert _completion(logprobs=0).logprobs == 0
    assert _chat(logprobs=False, top_logprobs=0).logprobs is None
    assert _chat(logprobs=True).logprobs == 0
    assert _chat(logprobs=True, top_logprobs=20).logprobs == 20


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs": 2},
        {"logprobs": False, "top_logprobs": 2},
        {"logprobs": True, "top_logprobs": 21},
        {"logprobs": True, "top_logprobs": -1},
    ],
)
def test_top_logprobs_need_logprobs_and_have_a_range(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        _chat(**fields)
    assert caught.value.field == "top_logprobs"


@SURFACES
def test_prompt_logprobs_do_not_come_in_a_stream(parse: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(prompt_logprobs=1, stream=True)
    assert caught.value.field == "prompt_logprobs"


def test_only_completions_echo() -> None:
    assert _completion(echo=True).echo
    with pytest.raises(UnsupportedField):
        _chat(echo=True)
