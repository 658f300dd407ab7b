"""Tells calls of tools from text in an answer that comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from dspark.gateway.parsing.call_format import CallFormat
from dspark.gateway.parsing.call_sink import CallSink, EnoughCalls, NameCall
from dspark.gateway.parsing.json_reading import NoCall
from dspark.gateway.parsing.text_reader import SPACES, Reading, TextReader
from dspark.tool_calls import ToolCallDelta, shifted_places


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What a piece of an answer released; ``call_places`` as those of a TextChunk."""

    content: str = ""
    calls: tuple[ToolCallDelta, ...] = ()
    call_places: tuple[int, ...] = ()

    def joined(self, later: ParsedText) -> ParsedText:
        return ParsedText(
            self.content + later.content,
            self.calls + later.calls,
            self.call_places + shifted_places(later.call_places, len(self.content)),
        )


class CallParser:
    """Reads an answer in one format.

    What is no call comes back as content, to the letter, but for the white space before a call and
    for what ends an answer behind one. The joined results do not depend on how the answer is split.
    ``is_over`` says that the answer has all the calls it may have; nothing is read after that.
    """

    def __init__(
        self,
        call_format: CallFormat,
        tools: Collection[str],
        name_call: NameCall,
        *,
        streams_arguments: bool = False,
        max_calls: int | None = None,
    ) -> None:
        self._format = call_format
        self._openers = re.compile(f"[{re.escape(call_format.openers)}]")
        self._reader = TextReader()
        self._calls = CallSink(
            self._reader, tools, name_call, streams=streams_arguments, max_calls=max_calls
        )
        self._content: list[str] = []
        # White space that is text only if more text follows, and whether a call came before it.
        self._spaces = ""
        self._is_behind_call = False
        self._is_line_start = True
        self.is_over = False
        self._reading = self._read()

    @property
    def num_calls(self) -> int:
        """Complete ones."""
        return self._calls.num_complete

    def push(self, text: str) -> ParsedText:
        if self.is_over:
            return ParsedText()
        self._reader.add(text)
        next(self._reading, None)
        self._calls.progress()
        return self._taken()

    def flush(self) -> ParsedText:
        """The rest at the end of the answer."""
        if self.is_over:
            return ParsedText()
        self._reader.has_ended = True
        next(self._reading, None)
        if not self._is_behind_call:
            self._content.append(self._spaces)
        return self._taken()

    def _taken(self) -> ParsedText:
        content, self._content = "".join(self._content), []
        return ParsedText(content, *self._calls.take())

    def _read(self) -> Reading[None]:
        reader, calls = self._reader, self._calls
        while (yield from self._reaches_opener()):
            reader.forget()
            start = calls.given = reader.at
            num_before = calls.num_complete
            try:
                yield from self._format.read(reader, calls, self._is_line_start)
            except NoCall:
                calls.abandon()
                if reader.at == start:
                    reader.at += 1
                if calls.num_complete > num_before:
                    self._pass_calls()
                self._say(reader.text[calls.given : reader.at])
            except EnoughCalls:
                self.is_over = True
                return
            else:
                self._pass_calls()

    def _reaches_opener(self) -> Reading[bool]:
        """Past text that begins no call; whether something follows that may."""
        reader = self._reader
        while True:
            opener = self._openers.search(reader.text, reader.at)
            end = opener.start() if opener else len(reader.text)
            self._say(reader.text[reader.at : end])
            reader.at = end
            if opener or reader.has_ended:
                return opener is not None
            reader.forget()
            yield

    def _pass_calls(self) -> None:
        self._spaces = ""
        self._is_behind_call = self._is_line_start = True

    def _say(self, text: str) -> None:
        if not text:
            return
        line = text.rpartition("\n")[2]
        self._is_line_start = (self._is_line_start or line != text) and not line.strip(SPACES)
        text = self._spaces + text
        said = text.rstrip(SPACES)
        self._spaces = text[len(said) :]
        if said:
            self._content.append(said)
            self._calls.num_content_chars += len(said)
            self._is_behind_call = False
