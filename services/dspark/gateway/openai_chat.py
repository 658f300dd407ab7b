"""The chat parts of the OpenAI surface to conversations."""

from __future__ import annotations

from typing import Any

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway import unsupported_fields
from dspark.gateway.client_request import ChatMessage, ChatPrompt
from dspark.gateway.legacy_functions import check_functions, with_calls, with_functions
from dspark.gateway.openai_chat_types import ChatBody, Message, ToolDefinition
from dspark.gateway.shortened import shortened
from dspark.gateway.tool_choice import ChoiceMode, Tool, ToolChoice
from dspark.gateway.unsupported_fields import drop_neutral
from dspark.tool_calls import ToolCall


def chat_prompt(body: ChatBody) -> ChatPrompt:
    """Raises InvalidArgument for a template that is empty, which would pass for none."""
    if body.chat_template == "":
        raise InvalidArgument("chat_template", "must not be empty")
    choice: ToolChoice | None = body.tool_choice
    # Without tools only what asks for one is a choice.
    is_chosen = body.tools or (choice is not None and choice.mode is ChoiceMode.REQUIRED)
    check_functions(body)
    messages = with_calls([_message(message) for message in body.messages], body.messages)
    prompt = ChatPrompt(
        messages=tuple(messages),
        tools=tuple(map(_tool, body.tools or ())),
        tool_choice=choice if is_chosen else None,
        parallel_tool_calls=body.parallel_tool_calls is not False or not body.tools,
        streams_arguments=bool(body.stream and body.tools),
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=bool(body.continue_final_message),
        template_variables=body.chat_template_kwargs or {},
        documents=tuple(body.documents or ()),
        template=body.chat_template or "",
        include_reasoning=body.include_reasoning is not False,
        reasoning_effort=body.reasoning_effort,
    )
    return with_functions(prompt, body) if body.functions else prompt


def clean_message(message: Any, path: str) -> Any:
    """The message without neutral fields; raises UnsupportedField for what is not honoured."""
    if not isinstance(message, dict):
        return message
    kept = drop_neutral(message, unsupported_fields.MESSAGE, f"{path}.")
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [
            _clean_part(part, f"{path}.content[{i}]") for i, part in enumerate(content)
        ]
    return kept


def clean_tool(tool: Any, path: str) -> Any:
    """As ``clean_message``, for the definition of a tool."""
    if not isinstance(tool, dict):
        return tool
    if isinstance(tool.get("type"), str) and tool["type"] != "function":
        kind = shortened(tool["type"])
        raise UnsupportedField(f"{path}.type", f"{kind!r} is not supported, only 'function' is")
    return tool


def _clean_part(part: Any, path: str) -> Any:
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("type"), str) and part["type"] != "text":
        kind = shortened(part["type"])
        raise UnsupportedField(f"{path}.type", f"{kind!r} is not supported, only 'text' is")
    return drop_neutral(part, unsupported_fields.CONTENT_PART, f"{path}.")


def _message(message: Message) -> ChatMessage:
    return ChatMessage(
        message.role,
        _content(message),
        name=message.name or "",
        tool_calls=tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
        ),
        tool_call_id=message.tool_call_id or "",
        reasoning=message.reasoning_content or message.reasoning or "",
    )


def _content(message: Message) -> str | None:
    if message.content is None or isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content)


def _tool(tool: ToolDefinition) -> Tool:
    function = tool.function
    return Tool(function.name, function.description, function.parameters, bool(function.strict))
