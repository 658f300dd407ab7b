"""Calls as a Python list of calls with keywords: ``[f(a=1, b="x"), g()]``."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.json_reading import MAX_DEPTH, NoCall, another_of, at_end_of, expect
from dspark.gateway.parsing.text_reader import Reading, TextReader

_NAME = re.compile(r"[A-Za-z0-9_.]*")
_UNQUOTED = re.compile(r"""[^'"()\[\]{},]*""")
_QUOTED = {"'": re.compile(r"[^'\\\n]*"), '"': re.compile(r'[^"\\\n]*')}


def read_python_calls(reader: TextReader, calls: CallSink) -> Reading[None]:
    """Raises NoCall, also where a call names no tool. Arguments are given with their call."""
    yield from expect(reader, "[")
    yield from reader.spaces()
    while True:
        name = yield from reader.run(_NAME)
        if name not in calls.tools:
            raise NoCall
        yield from expect(reader, "(")
        arguments = yield from _keywords(reader)
        calls.complete(name, json.dumps(arguments, ensure_ascii=False))
        if not (yield from another_of(reader, "]")):
            return


def _keywords(reader: TextReader) -> Reading[dict[str, Any]]:
    values: dict[str, Any] = {}
    if (yield from at_end_of(reader, ")")):
        return values
    while True:
        name = yield from reader.run(_NAME)
        yield from reader.spaces()
        yield from expect(reader, "=")
        if not name.isidentifier() or name in values:
            raise NoCall
        values[name] = yield from _value(reader)
        if not (yield from another_of(reader, ")")):
            return values


def _value(reader: TextReader) -> Reading[Any]:
    """A literal that JSON can say too."""
    start = reader.at
    yield from _skip_expression(reader)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes
            value = ast.literal_eval(reader.text[start : reader.at].strip())
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NoCall from None
    return value


def _skip_expression(reader: TextReader) -> Reading[None]:
    """Up to the comma or bracket that ends the value."""
    depth = 0
    while True:
        yield from reader.run(_UNQUOTED)
        char = yield from reader.peek()
        if not char or depth > MAX_DEPTH:
            raise NoCall
        if depth == 0 and char in ",)]}":
            return
        reader.at += 1
        if char in _QUOTED:
            yield from _skip_quoted(reader, char)
        elif char != ",":
            depth += 1 if char in "([{" else -1


def _skip_quoted(reader: TextReader, quote: str) -> Reading[None]:
    while True:
        yield from reader.run(_QUOTED[quote])
        char = yield from reader.take()
        if char == quote:
            return
        if char != "\\" or not (yield from reader.take()):
            raise NoCall
