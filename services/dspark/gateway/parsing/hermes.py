"""`hermes`: calls as ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (also Qwen)."""

from __future__ import annotations

from typing import ClassVar

from dspark.gateway.parsing.call_format import usual_call_id
from dspark.gateway.parsing.call_object import read_call
from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.json_reading import expect
from dspark.gateway.parsing.text_reader import Reading, TextReader

OPENING = "<tool_call>"
CLOSING = "</tool_call>"
KEYS = ("arguments",)


class Hermes:
    """Each call between its own two marks; the second may be missing."""

    openers: ClassVar[str] = "<"
    marks: ClassVar[tuple[str, ...]] = (OPENING, CLOSING)

    def read(self, reader: TextReader, calls: CallSink, is_line_start: bool) -> Reading[None]:
        yield from expect(reader, OPENING)
        yield from reader.spaces()
        yield from read_call(reader, calls, KEYS)
        end = reader.at
        yield from reader.spaces()
        if not (yield from reader.literal(CLOSING)):
            reader.at = end

    def call_id(self, request_id: str, index: int) -> str:
        return usual_call_id(request_id, index)
