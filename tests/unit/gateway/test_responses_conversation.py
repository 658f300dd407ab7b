"""Items of the Responses API as turns of a chat."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.client_request import ChatMessage
from dspark.gateway.responses_conversation import conversation
from dspark.gateway.responses_items import parsed_items
from dspark.tool_calls import ToolCall

ASKS = {"role": "user", "content": "Rain?"}
SAYS = {"role": "assistant", "content": "Yes."}
CALLS = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_1"}
BROUGHT = {"type": "function_call_output", "call_id": "c", "output": "dry"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
    "encrypted_content": None,
    "status": "completed",
}
CALL = ToolCall("c", "f", "{}")
USER = ChatMessage("user", "Rain?")
TOOL = ChatMessage("tool", "dry", tool_call_id="c")


def _assistant(content: str | None, *calls: ToolCall, reasoning: str = "") -> ChatMessage:
    return ChatMessage("assistant", content, tool_calls=calls, reasoning=reasoning)


@pytest.mark.parametrize(
    ("items", "turns"),
    [
        ([ASKS, CALLS, BROUGHT], [USER, _assistant(None, CALL), TOOL]),
        ([THOUGHT, SAYS, CALLS], [_assistant("Yes.", CALL, reasoning="Hm.")]),
        ([THOUGHT, CALLS, SAYS], [_assistant("Yes.", CALL, reasoning="Hm.")]),
        ([SAYS, CALLS, CALLS, SAYS], [_assistant("Yes.Yes.", CALL, CALL)]),
        ([SAYS, SAYS], [_assistant("Yes."), _assistant("Yes.")]),
        ([THOUGHT, ASKS], [_assistant("", reasoning="Hm."), USER]),
        ([SAYS, THOUGHT, SAYS], [_assistant("Yes."), _assistant("Yes.", reasoning="Hm.")]),
        ([{"type": "reasoning", "summary": []}, SAYS], [_assistant("Yes.")]),
        (
            [CALLS, BROUGHT, CALLS, {**BROUGHT, "output": [{"type": "input_text", "text": "dry"}]}],
            [_assistant(None, CALL), TOOL] * 2,
        ),
        ([{"role": "developer", "content": "d"}], [ChatMessage("system", "d")]),
        ([{"type": None, **ASKS}], [USER]),
    ],
)
def test_what_the_assistant_does_in_a_row_is_one_turn(
    items: list[Any], turns: list[ChatMessage]
) -> None:
    assert conversation(parsed_items(items)) == turns


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([ASKS, BROUGHT], "input[1].call_id"),
        ([BROUGHT, CALLS], "input[0].call_id"),
        ([{**CALLS, "status": "failed"}], "input[0].status"),
        ([{**CALLS, "arguments": "[" * 100_000}], "input[0].arguments"),
        ([{**THOUGHT, "summary": [{"type": "summary_text", "text": "x"}]}], "input[0].summary"),
        ([{**ASKS, "call_id": "c"}], "input[0].call_id"),
        ([{"role": "nobody", "content": "x"}], "input[0].role"),
        (["x"], "input[0]"),
    ],
)
def test_errors_name_the_item_and_its_field(items: list[Any], field: str) -> None:
    with pytest.raises((InvalidArgument, UnsupportedField)) as caught:
        conversation(parsed_items(items))
    assert caught.value.field == field
