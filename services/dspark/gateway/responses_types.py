"""The request body of /v1/responses, and the conversation in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway import unsupported_fields
from dspark.gateway.client_request import ChatMessage, ChatPrompt, ClientRequest
from dspark.gateway.openai_requests import client_request, validated
from dspark.gateway.openai_types import CommonFields, Strict, Text
from dspark.gateway.shortened import shortened
from dspark.gateway.unsupported_fields import drop_neutral

# Developers speak in the place of the system, for which templates have one role.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_PART_TYPES = ("input_text", "output_text")
_ITEM = unsupported_fields.RESPONSES_ITEM
_MAX_PAIRS, _MAX_KEY_CHARS, _MAX_VALUE_CHARS = 16, 64, 512


class InputPart(Strict):
    """A part of an item's content."""

    type: Text
    text: Text


class InputItem(Strict):
    """A turn; parts are joined with line breaks."""

    type: Text | None = None
    role: Text
    content: Text | list[InputPart]


class ResponsesBody(CommonFields):
    """POST /v1/responses."""

    input: Text | list[InputItem] = Field(min_length=1)
    instructions: Text | None = None
    max_output_tokens: int | None = None
    metadata: dict[Text, Text] | None = None


def parse_responses(fields: Mapping[str, Any]) -> ResponsesBody:
    """Raises InvalidArgument or UnsupportedField that names the field."""
    kept = drop_neutral(fields, unsupported_fields.RESPONSES)
    items = kept.get("input")
    if isinstance(items, list):
        kept["input"] = [_clean_item(item, f"input[{i}]") for i, item in enumerate(items)]
    body = validated(ResponsesBody, kept)
    _check_metadata(body.metadata or {})
    if body.max_output_tokens is not None and body.max_output_tokens < 1:
        raise InvalidArgument("max_output_tokens", "must be at least 1")
    return body


def responses_request(body: ResponsesBody, request_id: str) -> ClientRequest:
    """The instructions come first, as the system's word."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        messages += [_message(item, f"input[{i}]") for i, item in enumerate(body.input)]
    prompt = ChatPrompt(tuple(messages), "input")
    return client_request(body, prompt, body.max_output_tokens, request_id)


def _message(item: InputItem, path: str) -> ChatMessage:
    if item.role not in _ROLES:
        raise InvalidArgument(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
    content = item.content
    if not isinstance(content, str):
        content = "\n".join(part.text for part in content)
    return ChatMessage(_ROLES[item.role], content)


def _clean_item(item: Any, path: str) -> Any:
    if not isinstance(item, dict):
        raise InvalidArgument(path, "must be an object")
    _check_type(item, path, ("message",))
    # An item of an earlier answer comes back as it was given; its id names nothing here.
    kept = drop_neutral({k: v for k, v in item.items() if k != "id"}, _ITEM, f"{path}.")
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [
            _clean_part(part, f"{path}.content[{i}]") for i, part in enumerate(content)
        ]
    return kept


def _clean_part(part: Any, path: str) -> Any:
    if not isinstance(part, dict):
        return part
    _check_type(part, path, _PART_TYPES)
    return drop_neutral(part, unsupported_fields.RESPONSES_PART, f"{path}.")


def _check_type(value: Mapping[str, Any], path: str, known: tuple[str, ...]) -> None:
    kind = value.get("type")
    if isinstance(kind, str) and kind not in known:
        problem = f"{shortened(kind)!r} is not supported, only {' and '.join(map(repr, known))}"
        raise UnsupportedField(f"{path}.type", problem)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > _MAX_PAIRS:
        raise InvalidArgument("metadata", f"may have at most {_MAX_PAIRS} keys")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY_CHARS or len(value) > _MAX_VALUE_CHARS:
            problem = f"keys have at most {_MAX_KEY_CHARS} characters, values {_MAX_VALUE_CHARS}"
            raise InvalidArgument("metadata", problem)
