"""Which conversations are well formed, and what a chat template reads of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import ChatMessage
from dspark.tool_calls import ToolCall

ROLES = ("system", "developer", "user", "assistant", "tool")


def check_messages(messages: Sequence[ChatMessage], label: str) -> None:
    """Raises InvalidArgument that names the first field that is wrong; ``label`` is the list's."""
    if not messages:
        raise InvalidArgument(label, "must have at least one message")
    for index, message in enumerate(messages):
        _check(message, f"{label}[{index}]")


def template_messages(messages: Sequence[ChatMessage], source: str) -> list[dict[str, Any]]:
    """The checked messages as the template ``source`` reads them; what is not set is not there.

    A template that knows no ``developer`` gets a ``system`` message, which is the older name.
    """
    knows_developer = "developer" in source
    return [_template_message(message, knows_developer) for message in messages]


def _check(message: ChatMessage, path: str) -> None:
    if message.role not in ROLES:
        raise InvalidArgument(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    if message.tool_calls and message.role != "assistant":
        raise InvalidArgument(f"{path}.tool_calls", "only the assistant calls tools")
    if message.reasoning and message.role != "assistant":
        raise InvalidArgument(f"{path}.reasoning_content", "only the assistant has it")
    if message.content is None and not message.tool_calls:
        raise InvalidArgument(f"{path}.content", "is required")
    if message.role == "tool" and not message.tool_call_id:
        raise InvalidArgument(f"{path}.tool_call_id", "is required in an answer of a tool")
    if message.tool_call_id and message.role != "tool":
        raise InvalidArgument(f"{path}.tool_call_id", "only an answer of a tool has it")
    for index, call in enumerate(message.tool_calls):
        arguments_object(call.arguments, f"{path}.tool_calls[{index}].function.arguments")


def arguments_object(text: str, field: str = "tool_calls") -> dict[str, Any]:
    """Templates want the object, not its text; raises InvalidArgument for what is none."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise InvalidArgument(field, "must be the text of a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArgument(field, "must be the text of a JSON object")
    return value


def _template_message(message: ChatMessage, knows_developer: bool) -> dict[str, Any]:
    is_older = message.role == "developer" and not knows_developer
    fields: dict[str, Any] = {"role": "system" if is_older else message.role}
    if message.content is not None:
        fields["content"] = message.content
    if message.name:
        fields["name"] = message.name
    if message.reasoning:
        # The second is the name in templates of gpt-oss.
        fields["reasoning_content"] = fields["thinking"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [_template_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _template_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_object(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}
