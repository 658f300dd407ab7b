"""Tells reasoning between ``<think>`` and ``</think>`` from the answer that follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from dspark.gateway.parsing.text_reader import Reading, TextReader

OPENING = "<think>"
CLOSING = "</think>"
MARKS = (OPENING, CLOSING)
_LINE_BREAKS = re.compile(r"[\r\n]*")
_THOUGHT = re.compile(r"[^<\r\n]*")


class Stage(Enum):
    """Where in an answer the reader is."""

    OPENING = "opening"
    REASONING = "reasoning"
    CONTENT = "content"


@dataclass(frozen=True, slots=True)
class SplitText:
    """What a piece of an answer released."""

    reasoning: str = ""
    content: str = ""


class ReasoningSplitter:
    """Reads an answer that may begin with reasoning.

    ``start`` is the stage that the prompt leaves it in; in OPENING a tag decides. Line breaks
    beside a tag belong to it. The joined results do not depend on how the answer is split.
    """

    def __init__(self, start: Stage) -> None:
        self.stage = start
        self._reader = TextReader()
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._reading = self._read()

    def push(self, text: str) -> SplitText:
        self._reader.add(text)
        next(self._reading, None)
        return self._taken()

    def flush(self) -> SplitText:
        """The rest at the end of the answer."""
        self._reader.has_ended = True
        next(self._reading, None)
        return self._taken()

    def _taken(self) -> SplitText:
        split = SplitText("".join(self._reasoning), "".join(self._content))
        self._reasoning, self._content = [], []
        return split

    def _read(self) -> Reading[None]:
        reader = self._reader
        if self.stage is not Stage.CONTENT:
            yield from reader.spaces()
            if (yield from reader.literal(OPENING)):
                self.stage = Stage.REASONING
            else:
                reader.at = 0
                if self.stage is Stage.OPENING:
                    self.stage = Stage.CONTENT
        if self.stage is Stage.REASONING:
            yield from reader.run(_LINE_BREAKS)
            yield from self._read_reasoning()
        while True:
            self._content.append(reader.text[reader.at :])
            reader.at = len(reader.text)
            if reader.has_ended:
                return
            reader.forget()
            yield

    def _read_reasoning(self) -> Reading[None]:
        reader = self._reader
        while not (reader.has_ended and reader.at == len(reader.text)):
            self._think(reader.at, _end(_THOUGHT, reader))
            breaks = reader.at
            yield from reader.run(_LINE_BREAKS)
            end = reader.at
            if (yield from reader.literal(CLOSING)):
                self.stage = Stage.CONTENT
                yield from reader.run(_LINE_BREAKS)
                return
            following = yield from reader.take()
            self._think(breaks, end + len(following))
            reader.forget()

    def _think(self, start: int, end: int) -> None:
        self._reasoning.append(self._reader.text[start:end])
        self._reader.at = end


def _end(pattern: re.Pattern[str], reader: TextReader) -> int:
    match = pattern.match(reader.text, reader.at)
    return match.end() if match else reader.at
