"""The tools that a conversation offers, and which of them may or must be called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.shortened import shortened

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ChoiceMode(Enum):
    """Whether the model may, must or must not call a tool."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, or with REQUIRED the one ``function`` that must be called; empty means any."""

    mode: ChoiceMode
    function: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that can be called; ``parameters`` is a JSON schema of its arguments.

    The arguments of a ``strict`` one meet it in every call.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool = False

    def definition(self) -> dict[str, Any]:
        """As chat templates read it."""
        function: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        if self.parameters is not None:
            function["parameters"] = dict(self.parameters)
        return {"type": "function", "function": function}


def check_tools(tools: Sequence[Tool], path: str, holder: str) -> None:
    """Raises InvalidArgument for a name that no tool can have or that two have, and for arguments
    that are no object.

    ``path`` is the client's name for the list, and ``holder`` stands before a tool's own fields.
    """
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        place = f"{path}[{index}].{holder}"
        field = f"{place}name"
        if not _NAME.fullmatch(tool.name):
            problem = "must have 1 to 128 letters, digits and . _ -"
            raise InvalidArgument(field, problem)
        if tool.parameters is not None and tool.parameters.get("type", "object") != "object":
            problem = "must be of the type object: arguments have names"
            raise InvalidArgument(f"{place}parameters", problem)
        if tool.name in seen:
            raise InvalidArgument(field, f"{shortened(tool.name)!r} is the name of another tool")
        seen.add(tool.name)


def settled_choice(choice: ToolChoice | None, tools: Sequence[Tool], path: str) -> ToolChoice:
    """The choice with its default; raises InvalidArgument for one that the tools do not allow."""
    if choice is None:
        return ToolChoice(ChoiceMode.AUTO if tools else ChoiceMode.NONE)
    if choice.mode is not ChoiceMode.REQUIRED:
        return choice if tools else ToolChoice(ChoiceMode.NONE)
    if not tools:
        raise InvalidArgument(path, "needs tools")
    if choice.function and choice.function not in {tool.name for tool in tools}:
        raise InvalidArgument(path, f"{shortened(choice.function)!r} is not among the tools")
    return choice


def callable_tools(choice: ToolChoice, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those that may be called: all of them, or the one that must be."""
    return tuple(tool for tool in tools if choice.function in ("", tool.name))
