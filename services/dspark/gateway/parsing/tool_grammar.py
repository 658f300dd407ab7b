"""Grammars that hold an answer to calls of tools, for choices that leave the model no other way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dspark.gateway.parsing import hermes, llama3, mistral
from dspark.gateway.tool_choice import Tool

SpecialId = Callable[[str], int | None]
# A settled form leaves no choice about most tokens between values.
_WHITESPACE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_ANYTHING: Mapping[str, Any] = MappingProxyType({"type": "object"})


def required_calls(
    format_name: str, tools: Sequence[Tool], *, allows_several: bool, special_id: SpecialId
) -> str:
    """Lark text (llguidance's) of answers that call one of the ``tools``, and do nothing else.

    For a choice that names a function ``tools`` is that one alone. ``special_id`` gives the id of a
    mark that is a special token, which no text spells. Raises KeyError for a format without one.
    """
    start, key = _LAYOUTS[format_name](allows_several, special_id)
    names = [f"call_{index}" for index in range(len(tools))]
    rules = [f"{name}: %json {_schema(tool, key)}" for name, tool in zip(names, tools, strict=True)]
    return "\n".join([*start, f"call: {' | '.join(names)}", *rules])


def _schema(tool: Tool, key: str) -> str:
    # Parsers take nothing but an object for arguments, whatever a schema forgets to say.
    parameters = {**_ANYTHING, **(tool.parameters or {})}
    schema = {
        "x-guidance": _WHITESPACE,
        "type": "object",
        "properties": {"name": {"const": tool.name}, key: dict(parameters)},
        "required": ["name", key],
        "additionalProperties": False,
    }
    return json.dumps(schema)


def _hermes(allows_several: bool, special_id: SpecialId) -> tuple[list[str], str]:
    opening, closing = (_mark(mark, special_id) for mark in (hermes.OPENING, hermes.CLOSING))
    more = ' ("\\n" marked)*' if allows_several else ""
    start = [f"start: marked{more}", f'marked: {opening} "\\n" call "\\n" {closing}']
    return start, hermes.KEYS[0]


def _mistral(allows_several: bool, special_id: SpecialId) -> tuple[list[str], str]:
    more = ' (", " call)*' if allows_several else ""
    opening = _mark(mistral.OPENING, special_id)
    return [f'start: {opening} "[" call{more} "]"'], mistral.KEYS[0]


def _llama3(allows_several: bool, special_id: SpecialId) -> tuple[list[str], str]:
    more = ' ("; " call)*' if allows_several else ""
    return [f"start: call{more}"], llama3.KEYS[0]


def _mark(mark: str, special_id: SpecialId) -> str:
    token_id = special_id(mark)
    return json.dumps(mark) if token_id is None else f"<[{token_id}]>"


_LAYOUTS: Mapping[str, Callable[[bool, SpecialId], tuple[list[str], str]]] = MappingProxyType(
    {"hermes": _hermes, "mistral": _mistral, "llama3": _llama3}
)
