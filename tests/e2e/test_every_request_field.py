"""Every field of the OpenAI surface has its effect, the same with speculation and without, or is
refused by its name; none is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx
import pytest

from dspark.gateway import unsupported_fields
from dspark.gateway.openai_chat_types import ChatBody
from dspark.gateway.openai_types import CompletionBody
from dspark.gateway.responses_types import ResponsesBody
from harness.openai_replies import Reply, Response
from harness.served import Served

pytestmark = pytest.mark.e2e

Fields = Mapping[str, Any]
COMPLETIONS, CHAT, RESPONSES = "completions", "chat/completions", "responses"
BODIES = {COMPLETIONS: CompletionBody, CHAT: ChatBody, RESPONSES: ResponsesBody}
REFUSED = {
    COMPLETIONS: unsupported_fields.COMPLETION,
    CHAT: unsupported_fields.CHAT,
    RESPONSES: unsupported_fields.RESPONSES,
}
# What the model ends with, and a special token that is text where it is asked for.
END, TURN = 1, 257
FEW = list(range(97, 105))
# Few tokens, so that some come again and all are text.
BASE: Fields = {
    "max_tokens": 16,
    "temperature": 0.8,
    "seed": 7,
    "allowed_token_ids": FEW,
    "return_token_ids": True,
    "ignore_eos": True,
}
PROMPTS: Mapping[str, Fields] = {
    COMPLETIONS: {"prompt": "abcd" * 16},
    CHAT: {"messages": [{"role": "user", "content": "abcd" * 16}]},
    RESPONSES: {
        "input": "abcd" * 16,
        "max_output_tokens": 16,
        "max_tokens": None,
        "return_token_ids": None,
    },
}
ON, OFF = {"policy": "fixed", "max_draft_tokens": 7}, {"enabled": False}
ANY = {"allowed_token_ids": None}
ENDS = {"allowed_token_ids": [98, END], "logit_bias": {str(END): 100}, "ignore_eos": False}


Check = Callable[[Reply], bool]


def differs(reply: Reply) -> bool:
    return reply.ids != reply.base.ids


def same(reply: Reply) -> bool:
    return reply.ids == reply.base.ids


def other_prompt(reply: Reply) -> bool:
    return reply.prompt_ids != reply.base.prompt_ids


def only(*ids: int) -> Check:
    return lambda reply: set(reply.ids) == set(ids)


def longer_prompt(reply: Reply) -> bool:
    return _prompt_of(reply) > _prompt_of(reply.base)


def shorter_prompt(reply: Reply) -> bool:
    return _prompt_of(reply) < _prompt_of(reply.base)


def _prompt_of(reply: Reply) -> int:
    assert isinstance(reply, Response)
    return reply.num_prompt_tokens


def tokens(count: int, text: str) -> Check:
    return lambda r: isinstance(r, Response) and (r.num_tokens, r.text) == (count, text)


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
OBJECT: Check = lambda reply: isinstance(json.loads(reply.text)["a"], bool)  # noqa: E731
# For each field: other fields that it needs, its value, and its effect.
EFFECTS: dict[str, tuple[Fields, Any, Check]] = {
    "allowed_token_ids": ({}, [98], only(98)),
    "bad_words": ({"allowed_token_ids": [97, 98]}, ["a"], only(98)),
    "cache_salt": ({}, "apart", lambda r: same(r) and r.cached == 0 < r.base.cached),
    "frequency_penalty": ({}, 2, differs),
    "guided_choice": (ANY, ["ab", "cd"], lambda r: r.text in ("ab", "cd")),
    "guided_grammar": (ANY, 'start: "ab" "cd"', lambda r: r.text == "abcd"),
    "guided_json": (ANY, SCHEMA, OBJECT),
    "guided_regex": (ANY, "[xy]{4}", lambda r: bool(re.fullmatch("[xy]{4}", r.text))),
    "ignore_eos": ({**ENDS}, False, lambda r: r.choice["finish_reason"] == "stop"),
    "include_stop_str_in_output": (
        {"allowed_token_ids": [98], "stop": "bbb"},
        True,
        lambda r: r.text == "bbb",
    ),
    "logit_bias": ({}, {"98": 100}, only(98)),
    "max_tokens": ({}, 3, lambda r: len(r.ids) == 3),
    "min_p": ({}, 1.0, differs),
    "min_tokens": (ENDS, 5, lambda r: r.ids == [98] * 5 + [END]),
    "n": ({}, 2, lambda r: len(r.body["choices"]) == 2),
    "presence_penalty": ({}, 2, differs),
    "priority": ({}, -5, same),
    "prompt_logprobs": ({}, 1, lambda r: "prompt_logprobs" in json.dumps(r.body)),
    "repetition_penalty": ({}, 100, differs),
    "response_format": (
        ANY,
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        OBJECT,
    ),
    "return_token_ids": ({}, False, lambda r: "token_ids" not in r.choice),
    "seed": ({}, 8, differs),
    "service_tier": ({}, "flex", lambda r: same(r) and r.body["service_tier"] == "flex"),
    "skip_special_tokens": (
        {"allowed_token_ids": [TURN]},
        False,
        lambda r: r.text == "<|turn|>" * 16,
    ),
    "spaces_between_special_tokens": ({}, False, same),
    "speculation": ({}, ON, lambda r: same(r) and r.body["speculation"]["drafted"] > 0),
    "stop": ({"allowed_token_ids": [98]}, "bb", lambda r: r.text == "" and len(r.ids) == 2),
    "stop_token_ids": ({"allowed_token_ids": [98]}, [98], lambda r: len(r.ids) == 1),
    "structured_outputs": (ANY, {"choice": ["ab"]}, lambda r: r.text == "ab"),
    "temperature": ({}, 0, differs),
    "top_k": ({}, 1, differs),
    "top_p": ({}, 1e-6, differs),
    "use_prefix_cache": ({}, False, lambda r: same(r) and r.cached == 0 < r.base.cached),
    "user": ({}, "somebody", same),
}
EFFECTS_OF: dict[str, dict[str, tuple[Fields, Any, Check]]] = {
    COMPLETIONS: EFFECTS
    | {
        "best_of": ({}, 3, lambda r: r.body["usage"]["completion_tokens"] == 48),
        "echo": ({}, True, lambda r: r.text.startswith("abcd" * 16)),
        "logprobs": ({}, 2, lambda r: len(r.choice["logprobs"]["token_logprobs"]) == 16),
        "prompt": ({}, "xyz", other_prompt),
    },
    CHAT: EFFECTS
    | {
        "add_generation_prompt": ({}, False, other_prompt),
        "continue_final_message": (
            {"messages": [{"role": "assistant", "content": "ab"}]},
            True,
            lambda r: r.prompt_ids[-2:] == [97, 98],
        ),
        "logprobs": ({}, True, lambda r: len(r.choice["logprobs"]["content"]) == 16),
        "max_completion_tokens": ({"max_tokens": None}, 3, lambda r: len(r.ids) == 3),
        "messages": ({}, [{"role": "user", "content": "xyz"}], other_prompt),
        "parallel_tool_calls": ({}, False, same),
        "top_logprobs": (
            {"logprobs": True},
            2,
            lambda r: len(r.choice["logprobs"]["content"][0]["top_logprobs"]) == 2,
        ),
    },
    RESPONSES: {n: e for n, e in EFFECTS.items() if n not in unsupported_fields.RESPONSES}
    | {
        # A chat has the same prompt, and has been asked with the salt of the others.
        "cache_salt": ({}, "apart too", EFFECTS["cache_salt"][2]),
        "input": ({}, "xyz", shorter_prompt),
        "instructions": ({}, "xyz", longer_prompt),
        "max_output_tokens": ({}, 3, lambda r: len(r.ids) == 3),
        "metadata": ({}, {"a": "b"}, lambda r: same(r) and r.body["metadata"] == {"a": "b"}),
        "min_tokens": (ENDS, 5, tokens(6, "bbbbb")),
        "parallel_tool_calls": ({}, False, lambda r: r.body["parallel_tool_calls"] is False),
        "stop": ({"allowed_token_ids": [98]}, "bb", tokens(2, "")),
        "stop_token_ids": ({"allowed_token_ids": [98]}, [98], tokens(1, "")),
        "text": (
            ANY,
            {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
            OBJECT,
        ),
    },
}
# What this model has no use for, and what is no other model's.
REFUSALS: dict[str, dict[str, tuple[Any, int]]] = {
    COMPLETIONS: {"model": ("other", 404)},
    CHAT: {
        "model": ("other", 404),
        "chat_template": ("x", 400),
        "chat_template_kwargs": ({"colour": 1}, 400),
        "documents": ([{"text": "x"}], 400),
        "include_reasoning": (False, 400),
        "tool_choice": ("required", 400),
        "tools": ([{"type": "function", "function": {"name": "f"}}], 400),
        "functions": ([{"name": "f"}], 400),
        "function_call": ({"name": "f"}, 400),
        "reasoning_effort": ("low", 400),
    },
    RESPONSES: {
        "model": ("other", 404),
        "reasoning": ({"effort": "low"}, 400),
        "tool_choice": ("required", 400),
        "tools": ([{"type": "function", "name": "f"}], 400),
    },
}
# Their effect is the form of the answer, which has a test of its own.
STREAMED = {"stream", "stream_options"}


def post(server: Served, surface: str, *parts: Fields) -> httpx.Response:
    fields: dict[str, Any] = {}
    for part in (BASE, PROMPTS[surface], *parts):
        fields |= part
    return httpx.post(f"{server.url}/v1/{surface}", json=fields, timeout=60)


def reply_of(server: Served, surface: str, *parts: Fields, base: Reply | None = None) -> Reply:
    response = post(server, surface, *parts)
    assert response.status_code == 200, response.text
    return (Response if surface == RESPONSES else Reply)(response.json(), base)


def cases(tables: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    return [(surface, name) for surface, table in tables.items() for name in table]


@pytest.mark.parametrize("surface", BODIES)
def test_no_field_is_left_out(surface: str) -> None:
    refused, fields = set(REFUSED[surface]), set(BODIES[surface].model_fields)
    known = set(EFFECTS_OF[surface]) | set(REFUSALS[surface]) | STREAMED - refused
    # The Responses API has some that it shares with the others and refuses.
    assert known == fields - refused
    assert surface == RESPONSES or not fields & refused


@pytest.mark.parametrize(("surface", "name"), cases(EFFECTS_OF))
def test_a_field_has_its_effect_on_and_off(server: Served, surface: str, name: str) -> None:
    needs, value, has_effect = EFFECTS_OF[surface][name]
    field = {name: value}
    neutral = needs if surface == RESPONSES else needs | {"return_token_ids": True}
    reply_of(server, surface, neutral)
    base = reply_of(server, surface, neutral, {"speculation": OFF})
    if name == "speculation":
        on = reply_of(server, surface, needs, field, base=base)
        assert has_effect(on)
        return
    off = reply_of(server, surface, needs, field, {"speculation": OFF}, base=base)
    on = reply_of(server, surface, needs, field, {"speculation": ON}, base=base)
    assert has_effect(off)
    assert on.told == off.told


@pytest.mark.parametrize(("surface", "name"), cases(REFUSALS))
def test_what_this_model_cannot_do_is_refused_by_name(
    server: Served, surface: str, name: str
) -> None:
    value, status = REFUSALS[surface][name]
    response = post(server, surface, {name: value})
    assert response.status_code == status, response.text
    assert response.json()["error"]["param"].partition(".")[0] == name


@pytest.mark.parametrize(("surface", "name"), cases(REFUSED))
def test_what_is_not_honoured_is_refused_by_name(server: Served, surface: str, name: str) -> None:
    response = post(server, surface, {name: ["no neutral value"]})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == name


@pytest.mark.parametrize("surface", [COMPLETIONS, CHAT])
def test_a_stream_is_the_same_answer(server: Served, surface: str) -> None:
    whole = reply_of(server, surface)
    streamed = post(server, surface, {"stream": True, "stream_options": {"include_usage": True}})
    lines = [line for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    choices = [choice for event in events for choice in event["choices"]]
    assert [i for c in choices for i in c.get("token_ids", ())] == whole.ids
    assert sum(choice["finish_reason"] is not None for choice in choices) == 1
    assert events[-1]["usage"]["completion_tokens"] == len(whole.ids)


def test_a_stream_of_the_responses_api_is_the_same_answer(server: Served) -> None:
    whole = reply_of(server, RESPONSES)
    streamed = post(server, RESPONSES, {"stream": True})
    lines = [line for line in streamed.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == whole.text
    assert events[-1]["type"] == "response.incomplete"
    assert Response(events[-1]["response"]).told == whole.told
