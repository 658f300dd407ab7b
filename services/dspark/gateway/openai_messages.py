"""What the assistant says, as the messages and deltas of the OpenAI surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dspark.gateway.text_assembly import TextChunk
from dspark.tool_calls import ToolCall, ToolCallDelta, joined_calls, merged_deltas


def message_delta(chunk: TextChunk) -> dict[str, Any]:
    """What of a chunk is text, reasoning and calls; nothing of what is empty."""
    delta: dict[str, Any] = {}
    if chunk.reasoning:
        delta["reasoning_content"] = chunk.reasoning
    if chunk.text:
        delta["content"] = chunk.text
    if chunk.calls:
        delta["tool_calls"] = [_call_delta(call) for call in merged_deltas(chunk.calls)]
    return delta


def whole_message(chunks: Sequence[TextChunk]) -> dict[str, Any]:
    """``content`` is null where the assistant says nothing beside its calls or its reasoning."""
    text = "".join(chunk.text for chunk in chunks)
    reasoning = "".join(chunk.reasoning for chunk in chunks)
    calls = joined_calls([delta for chunk in chunks for delta in chunk.calls])
    is_silent = not text and bool(calls or reasoning)
    message: dict[str, Any] = {"role": "assistant", "content": None if is_silent else text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _call_delta(delta: ToolCallDelta) -> dict[str, Any]:
    if not delta.name:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    return {"index": delta.index, **_call(ToolCall(delta.id, delta.name, delta.arguments))}
