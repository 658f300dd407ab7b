"""A conversation in the shape of OpenAI's messages and tools to inference_service.proto."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dspark.errors import InvalidArgument
from dspark.v1 import inference_service_pb2 as pb

FLAGS = (
    "parallel_tool_calls",
    "whole_tool_calls",
    "add_generation_prompt",
    "continue_final_message",
    "include_reasoning",
    "reasoning_effort",
    "chat_template",
)
OPTIONS = (*FLAGS, "tools", "tool_choice", "chat_template_kwargs", "documents")
_MODES = {
    "none": pb.TOOL_CHOICE_MODE_NONE,
    "auto": pb.TOOL_CHOICE_MODE_AUTO,
    "required": pb.TOOL_CHOICE_MODE_REQUIRED,
}
_TOOL_KEYS = ("name", "description", "parameters", "strict")
_MESSAGE_KEYS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}


def chat_to_proto(
    messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> pb.ChatPrompt:
    """Raises InvalidArgument that names what a field cannot hold."""
    chat = pb.ChatPrompt(messages=[_message(i, m) for i, m in enumerate(messages)])
    for name in FLAGS:
        if name in options:
            _set(chat, name, options[name])
    for index, tool in enumerate(options.get("tools", ())):
        chat.tools.append(_tool(tool, f"tools[{index}]"))
    if "tool_choice" in options:
        chat.tool_choice.CopyFrom(_choice(options["tool_choice"]))
    if "chat_template_kwargs" in options:
        name = "chat_template_kwargs"
        chat.chat_template_kwargs = _json(options[name], name)
    for index, document in enumerate(options.get("documents", ())):
        chat.documents.append(_json(document, f"documents[{index}]"))
    return chat


def _message(index: int, message: Any) -> pb.ChatMessage:
    where = f"messages[{index}]"
    if not isinstance(message, Mapping) or not {"role"} <= set(message) <= _MESSAGE_KEYS:
        keys = ", ".join(sorted(_MESSAGE_KEYS))
        raise InvalidArgument(where, f"must have a role and none but these: {keys}")
    calls = message.get("tool_calls") or ()
    content = message.get("content")
    if not isinstance(content, str) and not (content is None and calls):
        raise InvalidArgument(where, "content must be text")
    try:
        return pb.ChatMessage(
            role=message["role"],
            content=content,
            name=message.get("name"),
            tool_calls=[_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)],
            tool_call_id=message.get("tool_call_id"),
            reasoning=message.get("reasoning_content"),
        )
    except TypeError:
        raise InvalidArgument(where, "all but its tool_calls must be text") from None
    except ValueError as error:
        problem = f"{where} must be Unicode text: {error}"
        raise InvalidArgument("prompt", problem) from error


def _call(call: Any, where: str) -> pb.ToolCall:
    try:
        function = call["function"]
        return pb.ToolCall(
            id=call["id"], name=function["name"], arguments=function.get("arguments")
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        problem = 'must be {"id", "type", "function": {"name", "arguments"}}, all of them text'
        raise InvalidArgument(where, problem) from None


def _tool(tool: Any, where: str) -> pb.ToolDefinition:
    try:
        function = tool["function"]
        if tool["type"] != "function" or set(function) - set(_TOOL_KEYS):
            raise ValueError
        parameters = function.get("parameters")
        return pb.ToolDefinition(
            name=function["name"],
            description=function.get("description"),
            parameters=None if parameters is None else _json(parameters, where),
            strict=function.get("strict"),
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        keys = ", ".join(f'"{key}"' for key in _TOOL_KEYS)
        shape = f'{{"type": "function", "function": {{{keys}}}}}'
        raise InvalidArgument(where, f"must be {shape}") from None


def _choice(choice: Any) -> pb.ToolChoice:
    if isinstance(choice, str) and choice in _MODES:
        return pb.ToolChoice(mode=_MODES[choice])
    try:
        return pb.ToolChoice(function=choice["function"]["name"])
    except (TypeError, KeyError, ValueError):
        problem = f"must be {', '.join(_MODES)} or an object that names a function"
        raise InvalidArgument("tool_choice", problem) from None


def _json(value: Any, name: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, "must be an object")
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(name, f"is not JSON: {error}") from None


def _set(message: Any, name: str, value: Any) -> None:
    try:
        setattr(message, name, value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(name, str(error)) from error
