"""`mistral`: calls after ``[TOOL_CALLS]``, as a list of objects or as a name and its arguments."""

from __future__ import annotations

import re
from typing import ClassVar

from dspark.gateway.parsing.call_format import digest_of_call
from dspark.gateway.parsing.call_object import read_arguments, read_call
from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.json_reading import NoCall, another_of, expect
from dspark.gateway.parsing.text_reader import Reading, TextReader

OPENING = "[TOOL_CALLS]"
ARGUMENTS = "[ARGS]"
CALL_ID = "[CALL_ID]"
KEYS = ("arguments",)
# Templates of the family refuse ids of another length.
_ID_CHARS = 9
_NAME = re.compile(r"[A-Za-z0-9_.-]*")


class Mistral:
    """``[TOOL_CALLS][{"name": ..., "arguments": {...}}]``, or ``[TOOL_CALLS]name[ARGS]{...}``."""

    openers: ClassVar[str] = "["
    marks: ClassVar[tuple[str, ...]] = (OPENING, ARGUMENTS, CALL_ID)

    def read(self, reader: TextReader, calls: CallSink, is_line_start: bool) -> Reading[None]:
        yield from expect(reader, OPENING)
        yield from reader.spaces()
        if (yield from reader.peek()) == "[":
            yield from _list(reader, calls)
        else:
            yield from _named(reader, calls)

    def call_id(self, request_id: str, index: int) -> str:
        return digest_of_call(request_id, index)[:_ID_CHARS]


def _list(reader: TextReader, calls: CallSink) -> Reading[None]:
    yield from expect(reader, "[")
    yield from reader.spaces()
    while True:
        yield from read_call(reader, calls, KEYS)
        if not (yield from another_of(reader, "]")):
            return


def _named(reader: TextReader, calls: CallSink) -> Reading[None]:
    name = yield from reader.run(_NAME)
    if not name:
        raise NoCall
    if (yield from reader.literal(CALL_ID)):
        yield from reader.run(_NAME)
    yield from reader.literal(ARGUMENTS)
    yield from reader.spaces()
    arguments = yield from read_arguments(reader, calls, name)
    calls.complete(name, arguments)
