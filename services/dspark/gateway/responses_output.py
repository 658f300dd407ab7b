"""The output of one answer in the Responses API: items in the order in which they came (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from dspark.gateway.responses_objects import IN_PROGRESS
from dspark.gateway.responses_output_items import (
    FunctionCall,
    ItemEvent,
    Message,
    OutputItem,
    Reasoning,
)
from dspark.gateway.text_assembly import TextChunk
from dspark.tool_calls import ToolCallDelta


class ResponsesOutput:
    """Fed each chunk; gives the events, and has in ``items`` the objects of items that ended."""

    def __init__(self, request_id: str) -> None:
        self.items: list[dict[str, Any]] = []
        self._request_id = request_id
        self._open: OutputItem | None = None
        # that of the open item, if it is a call
        self._call_index: int | None = None

    def add(self, chunk: TextChunk) -> list[ItemEvent]:
        return list(chain.from_iterable(self._told(part) for part in _parts(chunk)))

    def end(self, is_cut: bool) -> list[ItemEvent]:
        """The last events; an answer that says nothing is an empty message."""
        opening = [] if self._open or self.items else [*self._begin(Message())]
        return [*opening, *self._close(is_cut)]

    def _told(self, part: str | _Thought | ToolCallDelta) -> Iterator[ItemEvent]:
        match part:
            case ToolCallDelta():
                if part.index != self._call_index:
                    yield from self._begin(FunctionCall(part.id, part.name))
                    self._call_index = part.index
                piece = part.arguments
            case _Thought():
                yield from self._begin_unless(Reasoning)
                piece = part
            case _:
                yield from self._begin_unless(Message)
                piece = part
        if piece and self._open is not None:
            yield self._placed(self._open.grow(piece))

    def _begin_unless(self, kind: type[Message] | type[Reasoning]) -> Iterator[ItemEvent]:
        if not isinstance(self._open, kind):
            yield from self._begin(kind())

    def _begin(self, item: OutputItem) -> Iterator[ItemEvent]:
        yield from self._close(is_cut=False)
        self._open, self._call_index = item, None
        added = {"id": self._item_id(item), **item.written(IN_PROGRESS)}
        yield "output_item.added", {"output_index": len(self.items), "item": added}
        yield from map(self._placed, item.opening())

    def _close(self, is_cut: bool) -> Iterator[ItemEvent]:
        if (item := self._open) is None:
            return
        yield from map(self._placed, item.closing())
        done = {"id": self._item_id(item), **item.written(item.status(is_cut))}
        yield "output_item.done", {"output_index": len(self.items), "item": done}
        self.items.append(done)
        self._open = None

    def _placed(self, event: ItemEvent) -> ItemEvent:
        name, fields = event
        assert self._open is not None
        place = {"item_id": self._item_id(self._open), "output_index": len(self.items)}
        return name, {**place, **fields}

    def _item_id(self, item: OutputItem) -> str:
        return f"{item.prefix}_{self._request_id}_{len(self.items)}"


class _Thought(str):
    """Text of reasoning."""


def _parts(chunk: TextChunk) -> Iterator[str | _Thought | ToolCallDelta]:
    """What the chunk tells of, in its order."""
    if chunk.reasoning:
        yield _Thought(chunk.reasoning)
    start = 0
    for delta, place in zip(chunk.calls, chunk.call_places, strict=True):
        if place > start:
            yield chunk.text[start:place]
            start = place
        yield delta
    if start < len(chunk.text):
        yield chunk.text[start:]
