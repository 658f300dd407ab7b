"""OpenAI's functions, which tools came after: `functions`, `function_call` and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.chat_messages import arguments_object
from dspark.gateway.client_request import ChatMessage, ChatPrompt
from dspark.gateway.openai_chat_types import ChatBody, FunctionDefinition, Message
from dspark.gateway.openai_messages import message_delta, whole_message
from dspark.gateway.openai_responses import ChatStyle
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.tool_choice import ChoiceMode, Tool
from dspark.tool_calls import ToolCall

ROLE = "function"


def check_functions(body: ChatBody) -> None:
    """Raises InvalidArgument for functions beside tools, or fields of the one for the other."""
    if body.functions:
        for name in ("tools", "tool_choice"):
            if getattr(body, name):
                raise InvalidArgument(name, "cannot go with functions")
        if body.parallel_tool_calls:
            raise InvalidArgument("parallel_tool_calls", "functions are called one at a time")
    elif body.function_call is not None and body.function_call.mode is ChoiceMode.REQUIRED:
        raise InvalidArgument("function_call", "needs functions")


def with_functions(prompt: ChatPrompt, body: ChatBody) -> ChatPrompt:
    """The prompt with the body's functions as its tools, one of which may be called once."""
    return replace(
        prompt,
        tools=tuple(map(_tool, body.functions or ())),
        tool_choice=body.function_call,
        tools_name="functions",
        choice_name="function_call",
        function_holder="",
        parallel_tool_calls=False,
        streams_arguments=bool(body.stream),
    )


def with_calls(messages: Sequence[ChatMessage], given: Sequence[Message]) -> list[ChatMessage]:
    """The messages, with calls of functions and what they brought as those of tools.

    Each result answers the last call before it. Raises InvalidArgument that names the field.
    """
    call = None
    told: list[ChatMessage] = []
    for index, (message, source) in enumerate(zip(messages, given, strict=True)):
        if source.function_call is not None:
            call = _call(source, index)
            message = replace(message, tool_calls=(call,))
        elif source.role == ROLE:
            if call is None or call.name != source.name:
                problem = "must be that of the last function_call before it"
                raise InvalidArgument(f"messages[{index}].name", problem)
            message = replace(message, role="tool", tool_call_id=call.id)
        told.append(message)
    return told


def _call(message: Message, index: int) -> ToolCall:
    assert message.function_call is not None
    called, place = message.function_call, f"messages[{index}].function_call"
    if message.role != "assistant":
        raise InvalidArgument(place, "only the assistant calls functions")
    if message.tool_calls:
        raise InvalidArgument(place, "cannot go with tool_calls")
    arguments_object(called.arguments, f"{place}.arguments")
    # Some templates take no other length.
    return ToolCall(f"call{index:05d}", called.name, called.arguments)


def _tool(function: FunctionDefinition) -> Tool:
    return Tool(
        function.name, function.description, function.parameters, strict=bool(function.strict)
    )


class FunctionStyle(ChatStyle):
    """/v1/chat/completions for clients that know functions."""

    calls_word = "function_call"

    def delta(self, chunk: TextChunk) -> dict[str, Any]:
        return {"delta": _as_function(message_delta(chunk))}

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]:
        return {"message": _as_function(whole_message(chunks))}


def _as_function(message: dict[str, Any]) -> dict[str, Any]:
    """There is one call, because only one may be made."""
    calls = message.pop("tool_calls", ())
    return message | {"function_call": calls[0]["function"]} if calls else message
