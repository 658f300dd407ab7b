"""`llama3`: calls as ``{"name": ..., "parameters": {...}}``, or as Python in a list."""

from __future__ import annotations

from typing import ClassVar

from dspark.gateway.parsing.call_format import usual_call_id
from dspark.gateway.parsing.call_object import read_call
from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.json_reading import NoCall
from dspark.gateway.parsing.python_calls import read_python_calls
from dspark.gateway.parsing.text_reader import Reading, TextReader

TAG = "<|python_tag|>"
KEYS = ("parameters", "arguments")


class Llama3:
    """Calls at the beginning of a line or behind a tag; objects are separated by semicolons.

    Nothing else tells them from text, so only what names a tool is a call.
    """

    openers: ClassVar[str] = "<{["
    marks: ClassVar[tuple[str, ...]] = (TAG,)

    def read(self, reader: TextReader, calls: CallSink, is_line_start: bool) -> Reading[None]:
        if (yield from reader.literal(TAG)):
            yield from reader.spaces()
        elif not is_line_start:
            raise NoCall
        char = yield from reader.peek()
        if char == "{":
            yield from _objects(reader, calls)
        elif char == "[":
            yield from read_python_calls(reader, calls)
        else:
            raise NoCall

    def call_id(self, request_id: str, index: int) -> str:
        return usual_call_id(request_id, index)


def _objects(reader: TextReader, calls: CallSink) -> Reading[None]:
    while True:
        yield from read_call(reader, calls, KEYS, is_marked=False)
        end = reader.at
        yield from reader.spaces()
        if not (yield from reader.literal(";")):
            reader.at = end
            return
        yield from reader.spaces()
