"""Tools, reasoning and structured output in /v1/responses, by openai's package."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }}:"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "<|end|>{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}"
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
CHAT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
ANSWER = f"<think>\nHm.\n</think>\n\nLet me look.\n{CALL}\n{CALL}And now?"
NUM_REASONING = len("<think>\nHm.\n</think>")
KINDS = ["reasoning", "message", "function_call", "function_call", "message"]
QUESTION: Any = {"role": "user", "content": "Rain?"}
SIZES = pytest.mark.parametrize("size", [1, 3, 8, 500])


@asynccontextmanager
async def _stack(
    folder: Path, text: str, size: int = 4, **settings: Any
) -> AsyncIterator[tuple[GatewayStack, openai.AsyncOpenAI]]:
    script = Script([*runs_of(text, size), [256]])
    scheduler = FakeScheduler(max_model_len=4096, vocab_size=300, script=script)
    settings = {"chat_template": TEMPLATE, "reasoning_parser": "qwen3", **settings}
    async with (
        gateway_stack(folder, scheduler, **settings) as stack,
        stack.openai() as client,
    ):
        yield stack, client


def _texts(items: Sequence[Any]) -> list[str]:
    """What each item says, or the city that it asks for."""
    return [
        json.loads(item.arguments)["city"]
        if item.type == "function_call"
        else "".join(part.text for part in item.content)
        for item in items
    ]


@SIZES
async def test_items_come_in_their_order(tmp_path: Path, size: int) -> None:
    async with _stack(tmp_path, ANSWER, size) as (_, client):
        response = await client.responses.create(model=MODEL, input="Rain?", tools=[TOOL])
    assert [item.type for item in response.output] == KINDS
    assert _texts(response.output) == ["Hm.", "Let me look.", "Köln", "Köln", "And now?"]
    assert {item.status for item in response.output} == {"completed"}  # type: ignore[union-attr]
    assert len({item.id for item in response.output}) == 5
    calls = [item for item in response.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["weather", "weather"]
    assert calls[0].call_id != calls[1].call_id and calls[0].call_id.startswith("call_")
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens == NUM_REASONING
    assert [tool.to_dict() for tool in response.tools] == [{**TOOL, "description": None}]
    assert (response.tool_choice, response.parallel_tool_calls) == ("auto", True)


def _check_places(events: Sequence[Any]) -> None:
    """Items begin one after the other, and all events in between are of the one that is open."""
    open_item: Any = None
    num_done = 0
    for number, event in enumerate(events):
        assert event.sequence_number == number
        if event.type == "response.output_item.added":
            assert open_item is None and event.output_index == num_done
            open_item = event.item
            assert open_item.status == "in_progress"
        elif event.type == "response.output_item.done":
            assert (event.output_index, event.item.id) == (num_done, open_item.id)
            assert event.item == events[-1].response.output[num_done]
            open_item, num_done = None, num_done + 1
        elif hasattr(event, "item_id"):
            assert (event.output_index, event.item_id) == (num_done, open_item.id)
            assert getattr(event, "content_index", 0) == 0
    assert open_item is None and num_done == len(events[-1].response.output)


@SIZES
async def test_the_stream_joins_to_the_response(tmp_path: Path, size: int) -> None:
    async with _stack(tmp_path, ANSWER, size) as (stack, client):
        stream = await client.responses.create(
            model=MODEL, input="Rain?", tools=[TOOL], stream=True, extra_body={"seed": 1}
        )
        events: list[Any] = [event async for event in stream]
        stack.scheduler.script = Script([*runs_of(ANSWER, size), [256]])
        whole = await client.responses.create(
            model=MODEL, input="Rain?", tools=[TOOL], extra_body={"seed": 1}
        )
    _check_places(events)
    final = events[-1].response
    assert events[-1].type == "response.completed"
    assert _without_ids(final.to_dict()) == _without_ids(whole.to_dict())
    pieces: dict[int, list[str]] = {}
    for event in events:
        if event.type.endswith(".delta"):
            pieces.setdefault(event.output_index, []).append(event.delta)
    written = ["".join(pieces[index]) for index in sorted(pieces)]
    city = '{"city": "Köln"}'
    assert written == ["Hm.", "Let me look.", city, city, "And now?"]
    done = [e for e in events if e.type.endswith(("text.done", "arguments.done"))]
    assert [getattr(e, "text", None) or e.arguments for e in done] == written
    if size < 8:
        assert len(pieces[2]) > 2


def _without_ids(response: Mapping[str, Any]) -> dict[str, Any]:
    changing = ("id", "created_at", "speculation", "usage")
    told = {name: value for name, value in response.items() if name not in changing}
    told["output"] = [
        {name: value for name, value in item.items() if name not in ("id", "call_id")}
        for item in response["output"]
    ]
    return told


async def test_openais_own_reader_of_streams_understands_it(tmp_path: Path) -> None:
    async with _stack(tmp_path, ANSWER) as (_, client):
        async with client.responses.stream(model=MODEL, input="Rain?", tools=[TOOL]) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert [item.type for item in final.output] == KINDS
    assert "response.function_call_arguments.done" in kinds
    assert "response.reasoning_text.done" in kinds


@SIZES
async def test_a_second_turn_is_laid_out_as_that_of_a_chat(tmp_path: Path, size: int) -> None:
    async with _stack(tmp_path, ANSWER, size) as (stack, client):
        first = await client.responses.create(
            model=MODEL, input=[QUESTION], tools=[TOOL], instructions="Be brief."
        )
        assert json.dumps([CHAT_TOOL]) in stack.last_prompt
        calls = [item for item in first.output if item.type == "function_call"]
        outputs: Any = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"dry {index}"}
            for index, call in enumerate(calls)
        ]
        stack.scheduler.script = Script([*runs_of("No.", size), [256]])
        items: Any = [QUESTION, *(item.to_dict() for item in first.output), *outputs]
        second = await client.responses.create(
            model=MODEL, input=items, tools=[TOOL], instructions="Be brief."
        )
        assert second.output_text == "No."
        asked = stack.last_prompt
        assert "<think>Hm.</think>Let me look.And now?<tool_call>" in asked
        assert "tool:dry 0" in asked and "tool:dry 1" in asked
        said = {
            "role": "assistant",
            "content": "Let me look.And now?",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ],
        }
        answers = [
            {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            for item in outputs
        ]
        messages: Any = [{"role": "system", "content": "Be brief."}, QUESTION, said, *answers]
        tools: Any = [CHAT_TOOL]
        await client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        assert stack.last_prompt == asked


async def test_a_call_that_breaks_off_is_incomplete(tmp_path: Path) -> None:
    cut = CALL[: CALL.index("ln")]
    async with _stack(tmp_path, CALL, 1) as (_, client):
        stream = await client.responses.create(
            model=MODEL,
            input="Rain?",
            tools=[TOOL],
            stream=True,
            max_output_tokens=len(cut.encode()),
        )
        events: list[Any] = [event async for event in stream]
    _check_places(events)
    assert events[-1].type == "response.incomplete"
    (call,) = events[-1].response.output
    assert (call.status, call.arguments) == ("incomplete", '{"city": "Kö')


async def test_reasoning_that_reaches_the_limit_is_all_there_is(tmp_path: Path) -> None:
    async with _stack(tmp_path, ANSWER, 1) as (stack, client):
        response = await client.responses.create(
            model=MODEL, input="Rain?", max_output_tokens=len("<think>\nHm")
        )
        output: Any = response.output
        (item,) = output
        assert (item.type, item.status) == ("reasoning", "incomplete")
        assert _texts([item]) == ["Hm"]
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == response.usage.output_tokens
        again: Any = [QUESTION, item.to_dict(), QUESTION]
        await client.responses.create(model=MODEL, input=again, max_output_tokens=1)
        assert "<|turn|>assistant:<think>Hm</think><|end|>" in stack.last_prompt


async def test_one_call_ends_the_answer_where_only_one_may_be(tmp_path: Path) -> None:
    async with _stack(tmp_path, f"{CALL}\n{CALL}") as (_, client):
        response = await client.responses.create(
            model=MODEL, input="Rain?", tools=[TOOL], parallel_tool_calls=False
        )
    assert [item.type for item in response.output] == ["function_call"]
    assert (response.status, response.parallel_tool_calls) == ("completed", False)


async def test_without_tools_a_call_is_text_and_silence_an_empty_message(tmp_path: Path) -> None:
    async with _stack(tmp_path, CALL) as (stack, client):
        for extra in ({}, {"tools": [TOOL], "tool_choice": "none"}):
            response = await client.responses.create(model=MODEL, input="Rain?", **extra)  # type: ignore[call-overload]
            assert response.output_text == CALL
            assert "weather" not in stack.last_prompt
            stack.scheduler.script = Script([*runs_of(CALL), [256]])
        stack.scheduler.script = Script([[256]])
        silent = await client.responses.create(model=MODEL, input="Rain?", stream=True)
        events: list[Any] = [event async for event in silent]
    _check_places(events)
    (item,) = events[-1].response.output
    assert (item.type, item.status, _texts([item])) == ("message", "completed", [""])


async def test_a_forced_call_is_a_grammar_for_the_verifier(tmp_path: Path) -> None:
    named = {"type": "function", "name": "weather"}
    async with _stack(tmp_path, CALL) as (stack, client):
        for choice in ("required", named):
            response = await client.responses.create(
                model=MODEL, input="Rain?", tools=[TOOL], tool_choice=choice
            )  # type: ignore[call-overload]
            assert [item.type for item in response.output] == ["function_call"]
            assert '"weather"' in stack.scheduler.requests[-1].sampling.structured.grammar
            told = response.tool_choice
            assert (told if isinstance(told, str) else told.to_dict()) == choice
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(
                model=MODEL,
                input="Rain?",
                tools=[TOOL],
                tool_choice="required",
                text={"format": {"type": "json_object"}},
            )
        assert caught.value.param == "text.format"


async def test_a_format_is_a_structure_for_the_verifier(tmp_path: Path) -> None:
    schema: Any = {"type": "object", "properties": {"a": {"type": "boolean"}}}
    wanted: Any = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    async with _stack(tmp_path, "{}", reasoning_parser="none") as (stack, client):
        response = await client.responses.create(
            model=MODEL, input="Rain?", text={"format": wanted}
        )
        assert json.loads(stack.scheduler.requests[-1].sampling.structured.json_schema) == schema
        assert response.text is not None and response.text.format is not None
        assert response.text.format.to_dict() == wanted
        await client.responses.create(
            model=MODEL, input="Rain?", text={"format": {"type": "json_object"}}
        )
        structured = stack.scheduler.requests[-1].sampling.structured
        assert structured.WhichOneof("structure") == "json_object"
    async with _stack(tmp_path, "<think>Hm.</think>{}") as (stack, client):
        response = await client.responses.create(
            model=MODEL, input="Rain?", text={"format": wanted}
        )
        assert response.output_text == "{}"
        structured = stack.scheduler.requests[-1].sampling.structured
        assert structured.grammar.startswith("start: (thought BREAKS?)? answer")
