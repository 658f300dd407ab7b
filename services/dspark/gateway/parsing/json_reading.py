"""JSON as a model writes it, checked while it comes (RFC 8259, strictly)."""

from __future__ import annotations

import json
import re

from dspark.gateway.parsing.text_reader import Reading, TextReader

MAX_DEPTH = 64
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"[-+.0-9eE]*")
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_WORDS = {"t": "true", "f": "false", "n": "null"}
_HEX = "0123456789abcdefABCDEF"


class NoCall(Exception):
    """The text is not what was to be read; the reader stands where it goes wrong."""


def expect(reader: TextReader, wanted: str) -> Reading[None]:
    for char in wanted:
        if (yield from reader.peek()) != char:
            raise NoCall
        reader.at += 1


def read_string(reader: TextReader) -> Reading[str]:
    """A JSON string, decoded."""
    start = reader.at
    yield from expect(reader, '"')
    while True:
        yield from reader.run(_PLAIN)
        if (yield from reader.peek()) == "\\":
            reader.at += 1
            yield from _escape(reader)
        else:
            yield from expect(reader, '"')
            return str(json.loads(reader.text[start : reader.at]))


def skip_value(reader: TextReader, depth: int = 0) -> Reading[None]:
    """Past a value of any kind."""
    char = yield from reader.peek()
    if depth > MAX_DEPTH:
        raise NoCall
    if char == '"':
        yield from read_string(reader)
    elif char == "{":
        yield from skip_object(reader, depth)
    elif char == "[":
        yield from _skip_array(reader, depth)
    elif char in _WORDS:
        yield from expect(reader, _WORDS[char])
    else:
        yield from _skip_number(reader)


def skip_object(reader: TextReader, depth: int = 0) -> Reading[None]:
    yield from expect(reader, "{")
    if (yield from at_end_of(reader, "}")):
        return
    while True:
        yield from read_string(reader)
        yield from colon(reader)
        yield from skip_value(reader, depth + 1)
        if not (yield from another_of(reader, "}")):
            return


def at_end_of(reader: TextReader, bracket: str) -> Reading[bool]:
    """Past white space; whether the bracket that closes was read."""
    yield from reader.spaces()
    return (yield from reader.literal(bracket))


def another_of(reader: TextReader, bracket: str) -> Reading[bool]:
    """Past a comma, or past the bracket that closes; whether another member follows."""
    if (yield from at_end_of(reader, bracket)):
        return False
    yield from expect(reader, ",")
    yield from reader.spaces()
    return True


def colon(reader: TextReader) -> Reading[None]:
    """Past the colon of a member."""
    yield from reader.spaces()
    yield from expect(reader, ":")
    yield from reader.spaces()


def _skip_array(reader: TextReader, depth: int) -> Reading[None]:
    yield from expect(reader, "[")
    if (yield from at_end_of(reader, "]")):
        return
    while True:
        yield from skip_value(reader, depth + 1)
        if not (yield from another_of(reader, "]")):
            return


def _skip_number(reader: TextReader) -> Reading[None]:
    number = yield from reader.run(_NUMBER)
    if not _WHOLE_NUMBER.fullmatch(number):
        raise NoCall


def _escape(reader: TextReader) -> Reading[None]:
    char = yield from reader.peek()
    if not char or char not in '"\\/bfnrtu':
        raise NoCall
    reader.at += 1
    for _ in range(4 if char == "u" else 0):
        digit = yield from reader.peek()
        if not digit or digit not in _HEX:
            raise NoCall
        reader.at += 1
