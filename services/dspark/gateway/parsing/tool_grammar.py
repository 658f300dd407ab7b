"""Grammars that hold an answer to calls of tools, or the calls of an answer to their schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dspark.gateway.parsing import hermes, llama3, mistral
from dspark.gateway.parsing.think_tags import OPENING, Stage
from dspark.gateway.parsing.thought_grammar import (
    SPACES,
    TEXT,
    SpecialId,
    begins_as_text,
    pattern,
    thought_before,
    thought_rules,
    unfinished_thought,
)
from dspark.gateway.tool_choice import Tool

# A settled form leaves no choice about most tokens between values.
_WHITESPACE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_ANYTHING: Mapping[str, Any] = MappingProxyType({"type": "object"})


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a format writes calls: ``block`` is Lark of those behind one ``opening``.

    An empty opening means that nothing marks calls, a ``between`` of None that there is one block.
    """

    key: str
    opening: str
    block: str
    between: str | None = None


def required_calls(
    format_name: str,
    tools: Sequence[Tool],
    *,
    allows_several: bool,
    special_id: SpecialId,
    reasoning: Stage = Stage.CONTENT,
) -> str:
    """Lark text (llguidance's) of answers that call one of the ``tools``, and do nothing else.

    They may reason before, from the stage ``reasoning`` on. For a choice that names a function
    ``tools`` is that one alone. ``special_id`` gives the id of a mark that is a special token,
    which no text spells. Raises KeyError for a format without one.
    """
    layout = _LAYOUTS[format_name](allows_several, special_id)
    opening = f"{_mark(layout.opening, special_id)} " if layout.opening else ""
    more = f" ({layout.between} calls)*" if allows_several and layout.between else ""
    before, thinking = thought_before(reasoning, special_id)
    rules = [f"start: {before}calls{more}", f"calls: {opening}{layout.block}", *thinking]
    return "\n".join([*rules, *_call_rules(tools, layout.key, lambda tool: tool.parameters)])


def marks_calls(format_name: str) -> bool:
    """Whether a mark tells where calls begin, so that text before them can be free."""
    return bool(_LAYOUTS[format_name](True, lambda mark: None).opening)


def strict_calls(
    format_name: str,
    tools: Sequence[Tool],
    *,
    allows_several: bool,
    special_id: SpecialId,
    reasoning: Stage = Stage.CONTENT,
) -> str:
    """As ``required_calls``, of answers that say what they want, and call in the format's form.

    Arguments of strict tools meet the tool's schema, others are any object. Raises ValueError for
    a format that does not mark its calls.
    """
    layout = _LAYOUTS[format_name](allows_several, special_id)
    if not layout.opening:
        raise ValueError(f"{format_name} does not mark its calls")
    return "\n".join(
        [
            *_free_rules(reasoning, layout.opening, special_id),
            "answer: (lead block)* TEXT",
            *_lead_rules("lead", layout.opening, special_id),
            f"block: {layout.block}",
            TEXT,
            *_call_rules(tools, layout.key, lambda tool: tool.parameters if tool.strict else None),
        ]
    )


def _free_rules(reasoning: Stage, opening: str, special_id: SpecialId) -> list[str]:
    """The rule ``start``, and those that it needs for reasoning."""
    if reasoning is Stage.CONTENT:
        return ["start: answer"]
    thought = thought_rules(reasoning, special_id)
    if begins_as_text(reasoning, special_id):
        lead = _lead_rules("first", opening, special_id, f" & ~/{SPACES}{OPENING}(?s:.*)/")
        return ["start: TEXT | first block answer | thought answer", *thought, *lead]
    plain = "answer | " if reasoning is Stage.OPENING else ""
    unfinished = unfinished_thought(reasoning, special_id)
    return [f"start: {plain}{unfinished} | thought answer", *thought]


def _lead_rules(name: str, opening: str, special_id: SpecialId, but: str = "") -> list[str]:
    """The rule ``name`` of text up to the end of the first mark; ``but`` says what text is none."""
    terminal, token_id = name.upper(), special_id(opening)
    if token_id is None:
        return [f"{name}[lazy]: {terminal}", f"{terminal}: /(?s:.*){pattern(opening)}/{but}"]
    return [f"{name}: {terminal} <[{token_id}]>", f"{terminal}: /(?s:.*)/{but}"]


def _call_rules(
    tools: Sequence[Tool], key: str, schema_of: Callable[[Tool], Mapping[str, Any] | None]
) -> list[str]:
    names = [f"call_{index}" for index in range(len(tools))]
    rules = [
        f"{name}: %json {_schema(tool.name, schema_of(tool), key)}"
        for name, tool in zip(names, tools, strict=True)
    ]
    return [f"call: {' | '.join(names)}", *rules]


def arguments_schema(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Parsers take nothing but an object for arguments, whatever a schema forgets to say."""
    return {**_ANYTHING, **(parameters or {})}


def _schema(name: str, parameters: Mapping[str, Any] | None, key: str) -> str:
    schema = {
        "x-guidance": _WHITESPACE,
        "type": "object",
        "properties": {"name": {"const": name}, key: arguments_schema(parameters)},
        "required": ["name", key],
        "additionalProperties": False,
    }
    return json.dumps(schema)


def _hermes(allows_several: bool, special_id: SpecialId) -> _Layout:
    block = f'"\\n" call "\\n" {_mark(hermes.CLOSING, special_id)}'
    return _Layout(hermes.KEYS[0], hermes.OPENING, block, '"\\n"')


def _mistral(allows_several: bool, special_id: SpecialId) -> _Layout:
    more = ' (", " call)*' if allows_several else ""
    return _Layout(mistral.KEYS[0], mistral.OPENING, f'"[" call{more} "]"')


def _llama3(allows_several: bool, special_id: SpecialId) -> _Layout:
    more = ' ("; " call)*' if allows_several else ""
    return _Layout(llama3.KEYS[0], "", f"call{more}")


def _mark(mark: str, special_id: SpecialId) -> str:
    token_id = special_id(mark)
    return json.dumps(mark) if token_id is None else f"<[{token_id}]>"


_LAYOUTS: Mapping[str, Callable[[bool, SpecialId], _Layout]] = MappingProxyType(
    {"hermes": _hermes, "mistral": _mistral, "llama3": _llama3}
)
