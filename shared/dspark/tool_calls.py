"""Calls of tools in a conversation, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the assistant wants called; ``arguments`` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of the answer's call number ``index``.

    The first of a call has its id and name, the pieces of ``arguments`` join to the whole.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


def merged_deltas(deltas: Sequence[ToolCallDelta]) -> tuple[ToolCallDelta, ...]:
    """The same with neighbours of one call as one."""
    merged: list[ToolCallDelta] = []
    for delta in deltas:
        if merged and merged[-1].index == delta.index:
            merged[-1] = replace(merged[-1], arguments=merged[-1].arguments + delta.arguments)
        else:
            merged.append(delta)
    return tuple(merged)


def shifted_places(places: Sequence[int], num_chars: int) -> tuple[int, ...]:
    """Places of calls in a text, with ``num_chars`` characters more before it."""
    return tuple(place + num_chars for place in places)


def joined_calls(deltas: Sequence[ToolCallDelta]) -> tuple[ToolCall, ...]:
    """The calls that the deltas of one answer make, in their order."""
    heads: dict[int, ToolCallDelta] = {}
    arguments: dict[int, list[str]] = {}
    for delta in deltas:
        heads.setdefault(delta.index, delta)
        arguments.setdefault(delta.index, []).append(delta.arguments)
    return tuple(
        ToolCall(head.id, head.name, "".join(arguments[index])) for index, head in heads.items()
    )
