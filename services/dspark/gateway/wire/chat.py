"""Conversations and their answers in inference_service.proto."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import ChatMessage, ChatPrompt
from dspark.gateway.tool_choice import ChoiceMode, Tool, ToolChoice
from dspark.tool_calls import ToolCall, ToolCallDelta
from dspark.v1 import inference_service_pb2 as pb

PATH = "chat."
_MODES: Mapping[int, ChoiceMode] = {
    pb.TOOL_CHOICE_MODE_UNSPECIFIED: ChoiceMode.AUTO,
    pb.TOOL_CHOICE_MODE_AUTO: ChoiceMode.AUTO,
    pb.TOOL_CHOICE_MODE_NONE: ChoiceMode.NONE,
    pb.TOOL_CHOICE_MODE_REQUIRED: ChoiceMode.REQUIRED,
}


def chat_from_proto(chat: pb.ChatPrompt) -> ChatPrompt:
    """Raises InvalidArgument for a text that is no JSON object."""
    return ChatPrompt(
        messages=tuple(map(_message, chat.messages)),
        path=PATH,
        function_holder="",
        tools=tuple(_tool(tool, f"{PATH}tools[{i}]") for i, tool in enumerate(chat.tools)),
        tool_choice=_choice(chat.tool_choice) if chat.HasField("tool_choice") else None,
        parallel_tool_calls=not chat.HasField("parallel_tool_calls") or chat.parallel_tool_calls,
        streams_arguments=bool(chat.tools) and not chat.whole_tool_calls,
        add_generation_prompt=(
            chat.add_generation_prompt if chat.HasField("add_generation_prompt") else None
        ),
        continue_final_message=chat.continue_final_message,
        template_variables=_object(
            chat.chat_template_kwargs or "{}", f"{PATH}chat_template_kwargs"
        ),
        documents=tuple(
            _object(text, f"{PATH}documents[{i}]") for i, text in enumerate(chat.documents)
        ),
        template=chat.chat_template,
        reasoning_effort=chat.reasoning_effort or None,
        include_reasoning=not chat.HasField("include_reasoning") or chat.include_reasoning,
    )


def call_deltas_to_proto(deltas: Sequence[ToolCallDelta]) -> list[pb.ToolCallDelta]:
    return [
        pb.ToolCallDelta(index=d.index, id=d.id, name=d.name, arguments=d.arguments) for d in deltas
    ]


def _message(message: pb.ChatMessage) -> ChatMessage:
    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls)
    return ChatMessage(
        message.role,
        None if calls and not message.content else message.content,
        name=message.name,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
    )


def _tool(tool: pb.ToolDefinition, path: str) -> Tool:
    parameters = None
    if tool.HasField("parameters"):
        parameters = _object(tool.parameters, f"{path}.parameters")
    description = tool.description if tool.HasField("description") else None
    return Tool(tool.name, description, parameters, tool.strict)


def _choice(choice: pb.ToolChoice) -> ToolChoice:
    if choice.WhichOneof("choice") == "function":
        return ToolChoice(ChoiceMode.REQUIRED, choice.function)
    if choice.mode not in _MODES:
        problem = f"{choice.mode} is no mode that is known here"
        raise InvalidArgument(f"{PATH}tool_choice", problem)
    return ToolChoice(_MODES[choice.mode])


def _object(text: str, field: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidArgument(field, "must be the text of a JSON object")
    return value
