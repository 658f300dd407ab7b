"""The items of a conversation in the Responses API: what each kind may have, checked one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway import unsupported_fields
from dspark.gateway.openai_requests import validated
from dspark.gateway.responses_types import (
    FunctionCallItem,
    FunctionOutputItem,
    InputItem,
    MessageItem,
    ReasoningItem,
)
from dspark.gateway.shortened import shortened
from dspark.gateway.unsupported_fields import Neutral, drop_neutral

MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class _Kind:
    """Its model, the fields that may only be neutral, and its field of parts with their types."""

    model: type[MessageItem | FunctionCallItem | FunctionOutputItem | ReasoningItem]
    neutral: Neutral
    parts: str = ""
    part_types: tuple[str, ...] = ()


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        MESSAGE: _Kind(
            MessageItem,
            unsupported_fields.RESPONSES_ITEM,
            "content",
            ("input_text", "output_text"),
        ),
        "function_call": _Kind(FunctionCallItem, unsupported_fields.RESPONSES_CALL),
        "function_call_output": _Kind(
            FunctionOutputItem, unsupported_fields.RESPONSES_CALL, "output", ("input_text",)
        ),
        "reasoning": _Kind(
            ReasoningItem, unsupported_fields.RESPONSES_REASONING, "content", ("reasoning_text",)
        ),
    }
)


def parsed_items(items: list[Any]) -> list[InputItem]:
    """Raises InvalidArgument or UnsupportedField that names the field; so do all below."""
    return [_parsed_item(item, index) for index, item in enumerate(items)]


def clean_tool(tool: Any, path: str) -> Any:
    """The definition without neutral fields; functions are the only kind of tool."""
    if not isinstance(tool, dict):
        return tool
    _check_type(tool, path, ("function",))
    return drop_neutral(tool, unsupported_fields.RESPONSES_TOOL, f"{path}.")


def _parsed_item(item: Any, index: int) -> InputItem:
    path = f"input[{index}]"
    if not isinstance(item, dict):
        raise InvalidArgument(path, "must be an object")
    _check_type(item, path, tuple(_KINDS))
    given = item.get("type")
    kind = _KINDS[given if isinstance(given, str) else MESSAGE]
    # An item of an earlier answer comes back as it was given; its id names nothing here.
    kept = {k: v for k, v in item.items() if k != "id" and (k, v) != ("type", None)}
    kept = drop_neutral(kept, kind.neutral, f"{path}.")
    parts = kept.get(kind.parts)
    if isinstance(parts, list):
        kept[kind.parts] = [
            _clean_part(part, f"{path}.{kind.parts}[{i}]", kind.part_types)
            for i, part in enumerate(parts)
        ]
    parsed = validated(kind.model, kept, ("input", index))
    if isinstance(parsed, FunctionCallItem):
        _check_arguments(parsed.arguments, f"{path}.arguments")
    return parsed


def _clean_part(part: Any, path: str, known: tuple[str, ...]) -> Any:
    if not isinstance(part, dict):
        return part
    _check_type(part, path, known)
    return drop_neutral(part, unsupported_fields.RESPONSES_PART, f"{path}.")


def _check_type(value: Mapping[str, Any], path: str, known: tuple[str, ...]) -> None:
    kind = value.get("type")
    if isinstance(kind, str) and kind not in known:
        problem = f"{shortened(kind)!r} is not supported, only {' and '.join(map(repr, known))}"
        raise UnsupportedField(f"{path}.type", problem)


def _check_arguments(arguments: str, field: str) -> None:
    try:
        is_object = isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise InvalidArgument(field, "must be the text of a JSON object")
