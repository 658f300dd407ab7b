"""What a format of tool calls is."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Protocol

from dspark.gateway.parsing.call_sink import CallSink
from dspark.gateway.parsing.text_reader import Reading, TextReader


class CallFormat(Protocol):
    """How models of a family write calls of tools into their text."""

    # the characters at which calls can begin
    openers: ClassVar[str]
    # the parts that may be special tokens, which are no text elsewhere
    marks: ClassVar[tuple[str, ...]]

    def read(self, reader: TextReader, calls: CallSink, is_line_start: bool) -> Reading[None]:
        """Read one or more calls, and what encloses them, into ``calls``.

        Raises NoCall where there is none, with the reader at what does not fit, and EnoughCalls.
        """
        ...

    def call_id(self, request_id: str, index: int) -> str:
        """The id of a request's call number ``index``."""
        ...


def digest_of_call(request_id: str, index: int) -> str:
    """24 hexadecimal digits that are the call's own."""
    return hashlib.blake2b(f"{request_id}/{index}".encode(), digest_size=12).hexdigest()


def usual_call_id(request_id: str, index: int) -> str:
    """An id of the kind that most templates take."""
    return f"call_{digest_of_call(request_id, index)}"
