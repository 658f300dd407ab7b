"""How the text of one answer is told apart: reasoning, content and calls of tools."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.gateway.parsing.call_format import CallFormat
from dspark.gateway.parsing.call_parser import CallParser
from dspark.gateway.parsing.think_tags import MARKS, ReasoningSplitter, Stage


@dataclass(frozen=True, slots=True)
class CallStyle:
    """Calls are in this format, of these tools."""

    format: CallFormat
    tools: frozenset[str] = field(default_factory=frozenset)
    # whether arguments are given as they come; else each call comes whole
    streams_arguments: bool = False
    max_calls: int | None = None

    def parser(self, request_id: str) -> CallParser:
        return CallParser(
            self.format,
            self.tools,
            lambda index: self.format.call_id(request_id, index),
            streams_arguments=self.streams_arguments,
            max_calls=self.max_calls,
        )


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """What to look for; None means that it is not looked for."""

    calls: CallStyle | None = None
    reasoning: Stage | None = None
    shows_reasoning: bool = True

    @property
    def marks(self) -> frozenset[str]:
        """Tokens that are needed as text, though they be special."""
        calls = self.calls.format.marks if self.calls else ()
        return frozenset((*calls, *(MARKS if self.reasoning is not None else ())))

    def splitter(self) -> ReasoningSplitter | None:
        return None if self.reasoning is None else ReasoningSplitter(self.reasoning)
