"""JSON objects of the Responses API to client requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway import unsupported_fields
from dspark.gateway.client_request import ChatMessage, ChatPrompt, ClientRequest, StructureWish
from dspark.gateway.openai_requests import client_request, validated
from dspark.gateway.responses_conversation import conversation
from dspark.gateway.responses_items import clean_tool, parsed_items
from dspark.gateway.responses_types import ResponsesBody
from dspark.gateway.structured_fields import format_wish
from dspark.gateway.tool_choice import ChoiceMode, Tool, ToolChoice
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text
from dspark.gateway.unsupported_fields import drop_neutral

# In how many objects and lists a tool's parameters stand in an event, and more.
_MAX_AROUND = 8
_NESTED = {
    "reasoning": unsupported_fields.RESPONSES_THINKING,
    "text": unsupported_fields.RESPONSES_TEXT,
}
_MAX_PAIRS, _MAX_KEY_CHARS, _MAX_VALUE_CHARS = 16, 64, 512


def parse_responses(fields: Mapping[str, Any]) -> ResponsesBody:
    """Raises InvalidArgument or UnsupportedField that names the field."""
    kept = drop_neutral(fields, unsupported_fields.RESPONSES)
    if isinstance(items := kept.get("input"), list):
        kept["input"] = parsed_items(items)
    if isinstance(tools := kept.get("tools"), list):
        kept["tools"] = [clean_tool(tool, f"tools[{i}]") for i, tool in enumerate(tools)]
    for name, table in _NESTED.items():
        if isinstance(options := kept.get(name), dict):
            kept[name] = drop_neutral(options, table, f"{name}.")
    body = validated(ResponsesBody, kept)
    _check_metadata(body.metadata or {})
    if body.max_output_tokens is not None and body.max_output_tokens < 1:
        raise InvalidArgument("max_output_tokens", "must be at least 1")
    for index, tool in enumerate(body.tools or ()):
        _check_parameters(tool.parameters, f"tools[{index}].parameters")
    return body


def responses_request(body: ResponsesBody, request_id: str) -> ClientRequest:
    """The instructions come first, as the system's word."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        messages += conversation(body.input)
    choice: ToolChoice | None = body.tool_choice
    # Without tools only what asks for one is a choice.
    is_chosen = body.tools or (choice is not None and choice.mode is ChoiceMode.REQUIRED)
    prompt = ChatPrompt(
        tuple(messages),
        "input",
        effort_name="reasoning.effort",
        function_holder="",
        tools=_tools(body),
        tool_choice=choice if is_chosen else None,
        parallel_tool_calls=body.parallel_tool_calls is not False or not body.tools,
        streams_arguments=bool(body.stream and body.tools),
        reasoning_effort=None if body.reasoning is None else body.reasoning.effort,
    )
    client = client_request(body, prompt, body.max_output_tokens, request_id)
    return replace(client, structure=_structure(body))


def _tools(body: ResponsesBody) -> tuple[Tool, ...]:
    return tuple(
        Tool(t.name, t.description, t.parameters, bool(t.strict)) for t in body.tools or ()
    )


def _structure(body: ResponsesBody) -> StructureWish | None:
    wanted = None if body.text is None else body.text.format
    if wanted is None:
        return None
    place = "text.format.schema"
    return format_wish(wanted.type, wanted.schema_, "text.format", place, place)


def _check_parameters(parameters: Any, field: str) -> None:
    """They come back in the response, so it must be possible to write them there."""
    for _ in range(_MAX_AROUND):
        parameters = [parameters]
    try:
        text = json.dumps(parameters, ensure_ascii=False)
    except RecursionError:
        raise InvalidArgument(field, "is nested too deeply") from None
    if not is_text(text):
        raise InvalidArgument(field, LONE_SURROGATE)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > _MAX_PAIRS:
        raise InvalidArgument("metadata", f"may have at most {_MAX_PAIRS} keys")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY_CHARS or len(value) > _MAX_VALUE_CHARS:
            problem = f"keys have at most {_MAX_KEY_CHARS} characters, values {_MAX_VALUE_CHARS}"
            raise InvalidArgument("metadata", problem)
