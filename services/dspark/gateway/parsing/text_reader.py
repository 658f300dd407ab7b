"""Reads a text that comes in pieces, character by character, as if it were there.

Readers of it are generators: they yield where they need text that has not come yet.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]
SPACES = " \t\r\n"


class TextReader:
    """The text so far, of which everything before ``at`` has been read."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.has_ended = False

    def add(self, text: str) -> None:
        self.text += text

    def forget(self) -> None:
        """Drop what has been read; positions are then counted from here."""
        self.text, self.at = self.text[self.at :], 0

    def peek(self) -> Reading[str]:
        """The next character, which stays; empty at the end."""
        while self.at >= len(self.text):
            if self.has_ended:
                return ""
            yield
        return self.text[self.at]

    def take(self) -> Reading[str]:
        """The next character, empty at the end."""
        char = yield from self.peek()
        self.at += len(char)
        return char

    def literal(self, wanted: str) -> Reading[bool]:
        """Whether the text goes on so; if not, nothing is read."""
        start = self.at
        for char in wanted:
            if (yield from self.peek()) != char:
                self.at = start
                return False
            self.at += 1
        return True

    def run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """The longest run of characters of which each matches ``pattern``, a repeated class."""
        start = self.at
        while True:
            match = pattern.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text) or self.has_ended:
                return self.text[start : self.at]
            yield

    def spaces(self) -> Reading[None]:
        """Past white space."""
        yield from self.run(_SPACES)


_SPACES = re.compile(f"[{SPACES}]*")
