"""Tools, reasoning and templates through the whole gateway: openai's package, gRPC and SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from tokenizers import AddedToken, Tokenizer

from dspark import rpc
from dspark.client import AsyncClient
from dspark.errors import InvalidArgument
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.byte_tokenizer import byte_tokenizer
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "<|end|>{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}{{ mood }}"
)
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}
QUESTION: Any = [{"role": "user", "content": "Rain?"}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
THOUGHT = "<think>\nHm.\n</think>\n\n"
SIZES = pytest.mark.parametrize("size", [1, 3, 8, 500])


@asynccontextmanager
async def _stack(
    folder: Path, text: str, size: int = 4, tokenizer: Tokenizer | None = None, **settings: Any
) -> AsyncIterator[tuple[GatewayStack, openai.AsyncOpenAI]]:
    script = Script([*runs_of(text, size), [256]])
    scheduler = FakeScheduler(max_model_len=4096, vocab_size=300, script=script)
    settings = {"chat_template": TEMPLATE, "reasoning_parser": "qwen3", **settings}
    async with (
        gateway_stack(folder, scheduler, tokenizer, **settings) as stack,
        stack.openai() as client,
    ):
        yield stack, client


@SIZES
async def test_a_tool_flow(tmp_path: Path, size: int) -> None:
    text = f"{THOUGHT}Let me look.\n{CALL}\n{CALL}"
    async with _stack(tmp_path, text, size) as (stack, client):
        answer = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, tools=[TOOL], tool_choice="auto"
        )
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me look."
        assert choice.message.reasoning_content == "Hm."  # type: ignore[attr-defined]
        assert choice.message.tool_calls is not None
        for call in choice.message.tool_calls:
            assert call.type == "function" and call.function.name == "weather"
            assert json.loads(call.function.arguments) == {"city": "Köln"}
        first, second = choice.message.tool_calls
        assert first.id != second.id and first.id.startswith("call_")
        assert answer.usage is not None and answer.usage.completion_tokens_details is not None
        reasoning = len("<think>\nHm.\n</think>")
        assert answer.usage.completion_tokens_details.reasoning_tokens == reasoning
        assert json.dumps([TOOL]) in stack.last_prompt

        stack.scheduler.script = Script([*runs_of("No.", size), [256]])
        final = await client.chat.completions.create(
            model=MODEL,
            messages=[
                *QUESTION,
                choice.message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": first.id, "content": "dry"},
            ],
            tools=[TOOL],
        )
        assert final.choices[0].finish_reason == "stop"
        assert final.choices[0].message.content == "No."
        assert "tool:dry" in stack.last_prompt
        assert '{"name": "weather", "arguments": {"city": "Köln"}}' in stack.last_prompt


@SIZES
async def test_a_tool_flow_as_a_stream(tmp_path: Path, size: int) -> None:
    text = f"{THOUGHT}Let me look.\n{CALL}\n{CALL}"
    async with _stack(tmp_path, text, size) as (_, client):
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    assert "".join(getattr(delta, "reasoning_content", "") or "" for delta in deltas) == "Hm."
    calls: dict[int, list[Any]] = {}
    for delta in deltas:
        for part in delta.tool_calls or ():
            calls.setdefault(part.index, []).append(part)
    assert list(calls) == [0, 1]
    for parts in calls.values():
        assert parts[0].id and parts[0].type == "function"
        assert [part.function.name for part in parts] == ["weather", *[None] * (len(parts) - 1)]
        joined = "".join(part.function.arguments or "" for part in parts)
        assert json.loads(joined) == {"city": "Köln"}
    if size < 8:
        assert len(calls[0]) > 2
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert [reason for reason in finishes if reason] == ["tool_calls"]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens_details is not None
    assert chunks[-1].usage.completion_tokens_details.reasoning_tokens == 20


@SIZES
async def test_one_call_ends_the_answer_where_only_one_may_be(tmp_path: Path, size: int) -> None:
    async with _stack(tmp_path, f"{CALL}\n{CALL} and more", size) as (stack, client):
        answer = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, tools=[TOOL], parallel_tool_calls=False
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        assert len(answer.choices[0].message.tool_calls or ()) == 1
        assert answer.usage is not None
        assert answer.usage.completion_tokens == len(CALL.partition("}}")[0].encode()) + 2
        (request,) = stack.scheduler.requests
        assert request.request_id in stack.scheduler.stopped + stack.scheduler.finished


async def test_a_malformed_call_is_text(tmp_path: Path) -> None:
    broken = CALL.replace('"Köln"', "Köln")
    async with _stack(tmp_path, broken) as (_, client):
        answer = await client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[TOOL])
    assert answer.choices[0].message.content == broken
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"


async def test_without_tools_a_call_is_text(tmp_path: Path) -> None:
    async with _stack(tmp_path, CALL) as (_, client):
        for extra in ({}, {"tools": [TOOL], "tool_choice": "none"}):
            answer = await client.chat.completions.create(model=MODEL, messages=QUESTION, **extra)  # type: ignore[call-overload]
            assert answer.choices[0].message.content == CALL
            assert answer.choices[0].finish_reason == "stop"


async def test_marks_that_are_special_tokens_are_seen(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens([AddedToken("[TOOL_CALLS]", special=True)])
    mark = tokenizer.token_to_id("[TOOL_CALLS]")
    async with _stack(tmp_path, "", tokenizer=tokenizer, tool_parser="mistral") as (stack, client):
        stack.scheduler.script = Script([[mark, *b'[{"name": "weather", "arguments": {}}]', 256]])
        answer = await client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[TOOL])
        (call,) = answer.choices[0].message.tool_calls or ()
        assert call.type == "function"
        assert (call.function.name, call.function.arguments, len(call.id)) == ("weather", "{}", 9)
        plain = await client.chat.completions.create(model=MODEL, messages=QUESTION)
        assert plain.choices[0].message.content == '[{"name": "weather", "arguments": {}}]'
        kept = await client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            extra_body={"skip_special_tokens": False, "include_stop_str_in_output": True},
        )
        text = '[TOOL_CALLS][{"name": "weather", "arguments": {}}]<|end|>'
        assert kept.choices[0].message.content == text


async def test_template_fields(tmp_path: Path) -> None:
    turns: Any = [*QUESTION, {"role": "assistant", "content": "It w"}]
    async with _stack(tmp_path, "ill.") as (stack, client):
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=turns,
            extra_body={"continue_final_message": True, "chat_template_kwargs": {"mood": "!"}},
        )
        assert answer.choices[0].message.content == "ill."
        assert stack.last_prompt == "<|turn|>user:Rain?<|end|><|turn|>assistant:It w"
        for body, field in (
            ({"chat_template": "x"}, "chat_template"),
            ({"documents": [{}]}, "documents"),
            ({"chat_template_kwargs": {"tone": 1}}, "chat_template_kwargs.tone"),
        ):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(
                    model=MODEL, messages=QUESTION, extra_body=body
                )
            assert caught.value.param == field


async def test_a_required_call_is_a_grammar_for_the_verifier(tmp_path: Path) -> None:
    async with _stack(tmp_path, CALL) as (stack, client):
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            answer = await client.chat.completions.create(
                model=MODEL, messages=QUESTION, tools=[TOOL], tool_choice=choice
            )  # type: ignore[call-overload]
            assert answer.choices[0].finish_reason == "tool_calls"
            grammar = stack.scheduler.requests[-1].sampling.structured.grammar
            assert '"weather"' in grammar
        for fields, param in (
            ({"response_format": {"type": "json_object"}}, "response_format"),
            ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice"),
        ):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(
                    **{
                        "model": MODEL,
                        "messages": QUESTION,
                        "tools": [TOOL],
                        "tool_choice": "required",
                    }
                    | fields
                )
            assert caught.value.param == param


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def _strict(schema: dict[str, Any]) -> Any:
    return {
        "type": "function",
        "function": {"name": "weather", "parameters": schema, "strict": True},
    }


async def test_a_strict_function_is_a_grammar_that_leaves_text_free(tmp_path: Path) -> None:
    async with (
        _stack(tmp_path, f"{THOUGHT}Yes: {CALL}") as (stack, client),
        AsyncClient(stack.grpc_target) as sdk,
    ):
        answer = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, tools=[_strict(SCHEMA)]
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        assert answer.choices[0].message.content == "Yes:"
        grammar = stack.scheduler.requests[-1].sampling.structured.grammar
        assert '"required": ["city"]' in grammar and "TEXT" in grammar
        same = await sdk.generate(QUESTION, tools=[_strict(SCHEMA)])
        assert same.calls_tools
        assert stack.scheduler.requests[-1].sampling.structured.grammar == grammar
        with pytest.raises(InvalidArgument) as refused:
            await sdk.generate(QUESTION, tools=[_strict({"not": {"type": "object"}})])
        assert refused.value.field == "chat.tools[0].parameters"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [TOOL, _strict({"not": {}})]}, "tools[1].function.name"),
        ({"tools": [_strict({"not": {}})]}, "tools[0].function.parameters"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        (
            {"tool_choice": "required", "tools": [_strict({"not": {}})]},
            "tools[0].function.parameters",
        ),
    ],
)
async def test_a_strict_function_that_cannot_be_is_named(
    tmp_path: Path, fields: dict[str, Any], param: str
) -> None:
    async with _stack(tmp_path, CALL) as (stack, _):
        response = await stack.chat(**{"tools": [_strict(SCHEMA)], **fields})
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == param


async def test_a_template_that_does_not_end_is_refused_and_streams_go_on(tmp_path: Path) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    settings = {"allow_chat_template": True, "chat_template_timeout_s": 1.0}
    async with _stack(tmp_path, "ok", **settings) as (stack, client):
        stack.scheduler.script = Script(runs_of("ab"), repeat=True, delay_s=0.01)
        stream = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True, max_tokens=4000
        )
        hung = asyncio.create_task(stack.chat(chat_template=endless, max_tokens=1))
        num_meanwhile = 0
        async for _ in stream:
            num_meanwhile += 1
            if hung.done():
                break
        await stream.close()
        refused = await hung
        assert refused.status_code == 400
        assert "takes longer than 1 seconds" in refused.json()["error"]["message"]
        assert num_meanwhile > 5
        brought = await stack.chat(chat_template="{{ messages[0].content }}", max_tokens=1)
        assert brought.status_code == 200
        assert stack.last_prompt == "hi"


@SIZES
async def test_grpc_has_the_same_parts(tmp_path: Path, size: int) -> None:
    tool = pb.ToolDefinition(name="weather", parameters='{"type": "object"}')
    chat = pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content="Rain?")], tools=[tool])
    async with (
        _stack(tmp_path, f"{THOUGHT}Yes: {CALL}", size) as (stack, _),
        rpc.channel(stack.grpc_target) as channel,
    ):
        call = pb_grpc.InferenceServiceStub(channel).Generate(pb.GenerateRequest(chat=chat))
        events = [event async for event in call]
    chunks = [event.chunk for event in events]
    assert "".join(chunk.text for chunk in chunks) == "Yes:"
    assert "".join(chunk.reasoning for chunk in chunks) == "Hm."
    deltas = [delta for chunk in chunks for delta in chunk.tool_calls]
    assert deltas[0].name == "weather" and deltas[0].id
    assert "".join(delta.arguments for delta in deltas) == '{"city": "Köln"}'
    assert events[-1].complete.calls_tools
    assert events[-1].complete.reasoning_tokens == 20


async def test_the_sdk_has_the_same_parts(tmp_path: Path) -> None:
    async with (
        _stack(tmp_path, f"{THOUGHT}Yes: {CALL}") as (stack, _),
        AsyncClient(stack.grpc_target) as client,
    ):
        answer = await client.generate(QUESTION, tools=[TOOL])
        assert (answer.text, answer.reasoning, answer.reasoning_tokens) == ("Yes:", "Hm.", 20)
        (call,) = answer.tool_calls
        assert (call.name, call.arguments) == ("weather", '{"city": "Köln"}')
        assert answer.calls_tools
        broken = CALL.replace('"Köln"', "Köln")
        stack.scheduler.script = Script([*runs_of(broken), [256]])
        answer = await client.generate(QUESTION, tools=[TOOL])
        assert (answer.text, answer.tool_calls, answer.calls_tools) == (broken, (), False)
        async with client.stream(QUESTION, tools=[TOOL]) as stream:
            pieces = [chunk async for chunk in stream]
        assert "".join(d.arguments for c in pieces for d in c.tool_calls) == '{"city": '
