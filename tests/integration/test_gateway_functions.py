"""The functions that tools came after, asked by openai's package as old clients ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "{{ m.tool_call_id }}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}"
)
FUNCTION: Any = {"name": "weather", "description": "of a city", "parameters": {"type": "object"}}
QUESTION: Any = [{"role": "user", "content": "Rain?"}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    script = Script([*runs_of(f"Look.\n{CALL}\n{CALL}", 4), [256]])
    scheduler = FakeScheduler(max_model_len=4096, vocab_size=300, script=script)
    async with gateway_stack(tmp_path, scheduler, chat_template=TEMPLATE) as running:
        yield running


@pytest.fixture
async def client(stack: GatewayStack) -> AsyncIterator[openai.AsyncOpenAI]:
    async with stack.openai() as made:
        yield made


async def test_a_function_is_called_once_and_its_result_answered(
    stack: GatewayStack, client: openai.AsyncOpenAI
) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=QUESTION, functions=[FUNCTION], function_call="auto"
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "function_call"
    assert choice.message.content == "Look."
    assert choice.message.tool_calls is None
    called = choice.message.function_call
    assert called is not None and called.name == "weather"
    assert json.loads(called.arguments) == {"city": "Rome"}
    assert json.dumps([{"type": "function", "function": FUNCTION}]) in stack.last_prompt

    stack.scheduler.script = Script([*runs_of("No."), [256]])
    turns: Any = [
        *QUESTION,
        choice.message.model_dump(exclude_none=True),
        {"role": "function", "name": "weather", "content": "dry"},
    ]
    final = await client.chat.completions.create(model=MODEL, messages=turns, functions=[FUNCTION])
    assert final.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content == "No."
    assert "<|turn|>tool:drycall00001" in stack.last_prompt
    assert '{"name": "weather", "arguments": {"city": "Rome"}}' in stack.last_prompt


async def test_a_stream_has_the_call_in_pieces(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=MODEL, messages=QUESTION, functions=[FUNCTION], stream=True
    )
    choices = [chunk.choices[0] async for chunk in stream]
    assert "".join(choice.delta.content or "" for choice in choices) == "Look."
    assert not any(choice.delta.tool_calls for choice in choices)
    calls = [choice.delta.function_call for choice in choices if choice.delta.function_call]
    assert [call.name for call in calls] == ["weather", *[None] * (len(calls) - 1)]
    assert "".join(call.arguments or "" for call in calls) == '{"city": "Rome"}'
    assert len(calls) > 2
    assert [c.finish_reason for c in choices if c.finish_reason] == ["function_call"]


async def test_a_named_function_is_forced(stack: GatewayStack, client: openai.AsyncOpenAI) -> None:
    await client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        functions=[FUNCTION, {"name": "now"}],
        function_call={"name": "weather"},
    )
    grammar = stack.scheduler.requests[-1].sampling.structured.grammar
    assert '"weather"' in grammar and '"now"' not in grammar


async def test_without_functions_or_with_none_a_call_is_text(client: openai.AsyncOpenAI) -> None:
    for extra in (
        {"function_call": "auto"},
        {"functions": []},
        {"functions": [FUNCTION], "function_call": "none"},
    ):
        answer = await client.chat.completions.create(model=MODEL, messages=QUESTION, **extra)  # type: ignore[call-overload]
        assert answer.choices[0].message.content == f"Look.\n{CALL}\n{CALL}"
        assert answer.choices[0].finish_reason == "stop"


ASKED = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"parallel_tool_calls": True}, "parallel_tool_calls"),
        ({"functions": [], "function_call": {"name": "weather"}}, "function_call"),
        ({"function_call": {"name": "other"}}, "function_call"),
        ({"function_call": "required"}, "function_call"),
        ({"functions": [{"name": "a b"}]}, "functions[0].name"),
        ({"functions": [{"parameters": {}}]}, "functions[0].name"),
        ({"messages": [{**ASKED, "role": "user"}]}, "messages[0].function_call"),
        ({"messages": [{"role": "function", "name": "f", "content": ""}]}, "messages[0].name"),
        (
            {"messages": [ASKED, {"role": "function", "name": "g", "content": ""}]},
            "messages[1].name",
        ),
        (
            {"messages": [{**ASKED, "function_call": {"name": "f", "arguments": "["}}]},
            "messages[0].function_call.arguments",
        ),
    ],
)
async def test_what_cannot_be_is_named(
    stack: GatewayStack, fields: dict[str, Any], param: str
) -> None:
    response = await stack.chat(**{"functions": [FUNCTION], **fields})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
