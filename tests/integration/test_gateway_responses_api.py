"""/v1/responses: OpenAI's Responses API for text, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from dspark.errors import QueueFull
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack

END = 256
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
BAD = {"type": "object", "properties": 1}
FUNCTION_CALL = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "dry"}
THOUGHT = {"type": "reasoning", "summary": []}
TYPES = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    *["response.output_text.delta"] * 5,
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


@pytest.fixture
async def client(stack: GatewayStack) -> AsyncIterator[openai.AsyncOpenAI]:
    stack.scheduler.script = Script([*runs_of("Hello"), [END]])
    async with stack.openai() as opened:
        yield opened


async def _ask(stack: GatewayStack, **fields: Any) -> Any:
    return await stack.client.post("/v1/responses", json={"input": "hi", **fields})


def _events(text: str) -> list[dict[str, Any]]:
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


async def test_openais_client_gets_a_response(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(
        model=MODEL, input="hi", instructions="be brief", metadata={"a": "b"}, temperature=0.5
    )
    assert response.output_text == "Hello"
    assert (response.status, response.error, response.incomplete_details) == (
        "completed",
        None,
        None,
    )
    assert (response.instructions, response.metadata) == ("be brief", {"a": "b"})
    assert (response.temperature, response.top_p) == (0.5, 1.0)
    assert response.usage is not None
    assert response.usage.output_tokens == 6
    assert response.usage.total_tokens == response.usage.input_tokens + 6
    assert response.usage.input_tokens_details.cached_tokens == 0


async def test_openais_client_reads_the_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(model=MODEL, input="hi", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == TYPES
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == "Hello"


async def test_the_stream_says_what_the_whole_response_says(stack: GatewayStack) -> None:
    stack.scheduler.script = Script([*runs_of("Hello"), [END]])
    whole = (await _ask(stack, seed=3)).json()
    streamed = _events((await _ask(stack, seed=3, stream=True)).text)[-1]["response"]
    for response in (whole, streamed):
        response["output"][0].pop("id")
        for name in ("id", "created_at"):
            response.pop(name)
    assert whole == streamed
    assert whole["seed"] == 3
    assert whole["speculation"]["rounds"] == 6
    assert whole["store"] is False


async def test_the_conversation_is_that_of_a_chat(stack: GatewayStack) -> None:
    earlier = (await _ask(stack)).json()["output"]
    turns = [
        {"role": "developer", "content": "d"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        *earlier,
        {"role": "user", "content": "v"},
    ]
    await _ask(stack, input=turns, instructions="s")
    messages = [
        {"role": role, "content": content}
        for role, content in (
            ("system", "s"),
            ("system", "d"),
            ("user", "u"),
            ("assistant", "Hello, world."),
            ("user", "v"),
        )
    ]
    chat = {"messages": messages, "max_tokens": 1}
    await stack.client.post("/v1/chat/completions", json=chat)
    asked, expected = stack.scheduler.requests[-2:]
    assert asked.prompt_token_ids == expected.prompt_token_ids


async def test_a_limit_makes_it_incomplete(stack: GatewayStack) -> None:
    response = (await _ask(stack, max_output_tokens=3)).json()
    assert response["status"] == response["output"][0]["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "Hel"
    last = _events((await _ask(stack, max_output_tokens=3, stream=True)).text)[-1]
    assert last["type"] == "response.incomplete"


async def test_a_refusal_is_a_status_and_a_break_a_failed_response(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(error=QueueFull("it is full"))
    assert (await _ask(stack, stream=True)).status_code == 429
    stack.scheduler.script = Script(runs_of("ab"), error=QueueFull("it is full"))
    last = _events((await _ask(stack, stream=True)).text)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    error = {"code": "rate_limit_exceeded", "message": "it is full"}
    assert last["response"]["error"] == error


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "strict": 1}]}, "tools[0].strict"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tools": [{**TOOL, "parameters": {"type": "array"}}]}, "tools[0].parameters"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].name"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "no"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "text", "schema": {}}}}, "text.format.schema"),
        ({"text": {"format": {"type": "text", "a": 1}}}, "text.format.a"),
        ({"text": {"format": {"type": "json_schema", "schema": BAD}}}, "text.format.schema"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"truncation": "auto"}, "truncation"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{**FUNCTION_CALL, "role": "user"}]}, "input[0].role"),
        ({"input": [{**FUNCTION_CALL, "call_id": ""}]}, "input[0].call_id"),
        ({"input": [{**FUNCTION_CALL, "arguments": "{"}]}, "input[0].arguments"),
        ({"input": [{**FUNCTION_CALL, "arguments": "[]"}]}, "input[0].arguments"),
        ({"input": [{**FUNCTION_CALL, "namespace": "n"}]}, "input[0].namespace"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"input": [FUNCTION_CALL, {**OUTPUT, "call_id": "d"}]}, "input[1].call_id"),
        ({"input": [FUNCTION_CALL, {**OUTPUT, "output": 1}]}, "input[1].output"),
        (
            {"input": [FUNCTION_CALL, {**OUTPUT, "output": [{"type": "input_file"}]}]},
            "input[1].output[0].type",
        ),
        ({"input": [{**THOUGHT, "encrypted_content": "x"}]}, "input[0].encrypted_content"),
        ({"input": [{**THOUGHT, "summary": [{}]}]}, "input[0].summary"),
        ({"input": [{**THOUGHT, "content": [{"type": "text"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": 1}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "text": ""}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 1000}, "max_output_tokens"),
        ({"max_output_tokens": 1000, "stream": True}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
    ],
)
async def test_what_is_not_honoured_is_refused_by_name(
    stack: GatewayStack, fields: dict[str, Any], param: str
) -> None:
    reply = await _ask(stack, **fields)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert stack.scheduler.requests == []


async def test_what_could_not_come_back_in_the_response_is_refused(stack: GatewayStack) -> None:
    tool = json.dumps({**TOOL, "parameters": {"a": "\ud800"}})
    body = f'{{"input": "hi", "tool_choice": "none", "tools": [{tool}]}}'
    reply = await stack.client.post("/v1/responses", content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tools[0].parameters")


async def test_what_changes_nothing_is_accepted(stack: GatewayStack) -> None:
    neutral = {
        "store": False,
        "previous_response_id": None,
        "tools": [],
        "tool_choice": "auto",
        "text": {"format": {"type": "text"}, "verbosity": None},
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "include": [],
    }
    assert (await _ask(stack, **neutral)).status_code == 200
