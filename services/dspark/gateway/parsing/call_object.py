"""Calls as JSON objects that name a function and its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.json_reading import (
    NoCall,
    another_of,
    at_end_of,
    colon,
    expect,
    read_string,
    skip_object,
    skip_value,
)
from dspark.gateway.parsing.text_reader import Reading, TextReader


def read_call(
    reader: TextReader, calls: CallSink, keys: Sequence[str], *, is_marked: bool = True
) -> Reading[None]:
    """An object with ``name`` and, under one of the ``keys``, its arguments; others do not count.

    One that nothing marks as a call must name a tool and have arguments. Raises NoCall.
    """
    name: str | None = None
    arguments: str | None = None
    yield from expect(reader, "{")
    if (yield from at_end_of(reader, "}")):
        raise NoCall
    while True:
        key = yield from read_string(reader)
        yield from colon(reader)
        if key == "name" and name is None:
            name = yield from read_string(reader)
            if not name or not (is_marked or name in calls.tools):
                raise NoCall
        elif key in keys and arguments is None:
            arguments = yield from read_arguments(reader, calls, name)
        else:
            yield from skip_value(reader)
        if not (yield from another_of(reader, "}")):
            break
    if name is None or not (is_marked or arguments):
        raise NoCall
    calls.complete(name, arguments or "{}")


def read_arguments(reader: TextReader, calls: CallSink, name: str | None) -> Reading[str]:
    """The text of the arguments' object, given at once if the call's name is known."""
    start = reader.at
    if (yield from reader.peek()) != "{":
        raise NoCall
    if name is not None:
        calls.begin(name)
    yield from skip_object(reader)
    calls.end_arguments()
    return reader.text[start : reader.at]
