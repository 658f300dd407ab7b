"""Where formats put the calls that they read, and what of the text they account for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dspark.gateway.parsing.text_reader import TextReader
from dspark.tool_calls import ToolCallDelta

NameCall = Callable[[int], str]


class EnoughCalls(Exception):
    """The last call that the answer may have is complete."""


class CallSink:
    """Takes calls in their order; text before the position ``given`` is accounted for.

    With ``streams`` arguments are given while they come, else when their call is complete.
    ``tools`` are the names of those that can be called.
    """

    def __init__(
        self,
        reader: TextReader,
        tools: Collection[str],
        name_call: NameCall,
        *,
        streams: bool,
        max_calls: int | None,
    ) -> None:
        self.tools = tools
        self.given = 0
        self.num_complete = 0
        # characters of content since the last time that something was taken
        self.num_content_chars = 0
        self._reader = reader
        self._name_call = name_call
        self._streams = streams
        self._max_calls = max_calls
        self._index = 0
        self._is_begun = False
        self._is_in_arguments = False
        self._deltas: list[ToolCallDelta] = []
        self._places: list[int] = []

    def begin(self, name: str) -> None:
        """The name is known, and the arguments begin where the reader stands."""
        if self._streams:
            self._is_begun = self._is_in_arguments = True
            self._head(name, "")
            self.given = self._reader.at

    def progress(self) -> None:
        """Give the arguments that were read so far."""
        if self._is_in_arguments and self.given < self._reader.at:
            piece = self._reader.text[self.given : self._reader.at]
            self._give(ToolCallDelta(self._index, arguments=piece))
            self.given = self._reader.at

    def end_arguments(self) -> None:
        """What follows is no part of the arguments."""
        self.progress()
        self._is_in_arguments = False

    def complete(self, name: str, arguments: str) -> None:
        """The call ends where the reader stands; raises EnoughCalls after the last one."""
        if not self._is_begun:
            self._head(name, arguments)
        self.given = self._reader.at
        self._is_begun = False
        self._index += 1
        self.num_complete += 1
        if self.num_complete == self._max_calls:
            raise EnoughCalls

    def abandon(self) -> None:
        """What was read last is no call after all; arguments that were given stay given."""
        self.end_arguments()
        if self._is_begun:
            self._is_begun = False
            self._index += 1

    def take(self) -> tuple[tuple[ToolCallDelta, ...], tuple[int, ...]]:
        """What was given since the last time, and for each how much content came before it."""
        taken = tuple(self._deltas), tuple(self._places)
        self._deltas, self._places, self.num_content_chars = [], [], 0
        return taken

    def _head(self, name: str, arguments: str) -> None:
        self._give(ToolCallDelta(self._index, self._name_call(self._index), name, arguments))

    def _give(self, delta: ToolCallDelta) -> None:
        self._deltas.append(delta)
        self._places.append(self.num_content_chars)
