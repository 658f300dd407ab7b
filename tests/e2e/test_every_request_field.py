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
from harness.served import Served

pytestmark = pytest.mark.e2e

Fields = Mapping[str, Any]
COMPLETIONS, CHAT = "completions", "chat/completions"
BODIES = {COMPLETIONS: CompletionBody, CHAT: ChatBody}
REFUSED = {COMPLETIONS: unsupported_fields.COMPLETION, CHAT: unsupported_fields.CHAT}
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
}
ON, OFF = {"policy": "fixed", "max_draft_tokens": 7}, {"enabled": False}
ANY = {"allowed_token_ids": None}
ENDS = {"allowed_token_ids": [98, END], "logit_bias": {str(END): 100}, "ignore_eos": False}


class Reply:
    """A successful answer; ``base`` is the one to BASE alone."""

    def __init__(self, body: dict[str, Any], base: Reply | None = None) -> None:
        self.body = body
        self.choice = body["choices"][0]
        self.base = base or self

    @property
    def ids(self) -> list[int]:
        return list(self.choice["token_ids"])

    @property
    def text(self) -> str:
        choice = self.choice
        return str(choice["text"] if "text" in choice else choice["message"]["content"])

    @property
    def prompt_ids(self) -> list[int]:
        return list(self.body["prompt_token_ids"])

    @property
    def cached(self) -> int:
        return int(self.body["usage"]["prompt_tokens_details"]["cached_tokens"])

    @property
    def told(self) -> Any:
        """What must not depend on speculation."""
        changing = ("speculation", "usage", "seed")
        return [{k: v for k, v in c.items() if k not in changing} for c in self.body["choices"]]


Check = Callable[[Reply], bool]


def differs(reply: Reply) -> bool:
    return reply.ids != reply.base.ids


def same(reply: Reply) -> bool:
    return reply.ids == reply.base.ids


def other_prompt(reply: Reply) -> bool:
    return reply.prompt_ids != reply.base.prompt_ids


def only(*ids: int) -> Check:
    return lambda reply: set(reply.ids) == set(ids)


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
    },
}
# Their effect is the form of the answer, which has a test of its own.
STREAMED = {"stream", "stream_options"}


def post(server: Served, surface: str, *parts: Fields) -> httpx.Response:
    fields: dict[str, Any] = {}
    for part in (PROMPTS[surface], BASE, *parts):
        fields |= part
    return httpx.post(f"{server.url}/v1/{surface}", json=fields, timeout=60)


def reply_of(server: Served, surface: str, *parts: Fields, base: Reply | None = None) -> Reply:
    response = post(server, surface, *parts)
    assert response.status_code == 200, response.text
    return Reply(response.json(), base)


def cases(tables: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    return [(surface, name) for surface, table in tables.items() for name in table]


@pytest.mark.parametrize("surface", BODIES)
def test_no_field_is_left_out(surface: str) -> None:
    known = set(EFFECTS_OF[surface]) | set(REFUSALS[surface]) | STREAMED
    assert known == set(BODIES[surface].model_fields)
    assert not known & set(REFUSED[surface])


@pytest.mark.parametrize(("surface", "name"), cases(EFFECTS_OF))
def test_a_field_has_its_effect_on_and_off(server: Served, surface: str, name: str) -> None:
    needs, value, has_effect = EFFECTS_OF[surface][name]
    field = {name: value}
    neutral = needs | {"return_token_ids": True}
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


@pytest.mark.parametrize("surface", BODIES)
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
