"""The kinds of items in an answer of the Responses API, and the events of their growth (pure)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

from dspark.gateway.responses_objects import COMPLETED, IN_PROGRESS, INCOMPLETE

# An event's name without "response.", and its fields beside its item's id and place.
ItemEvent = tuple[str, dict[str, Any]]


class OutputItem(Protocol):
    """One item, as it grows."""

    # what its id begins with
    prefix: str

    def grow(self, piece: str) -> ItemEvent: ...

    def written(self, status: str) -> dict[str, Any]:
        """The object without its id; one in progress has nothing inside."""
        ...

    def opening(self) -> Iterator[ItemEvent]:
        """What follows the event that adds the item."""
        ...

    def closing(self) -> Iterator[ItemEvent]:
        """What comes before the event that ends it."""
        ...

    def status(self, is_cut: bool) -> str:
        """How it ends; ``is_cut`` says that a limit ended the answer in it."""
        ...


class TextItem(ABC):
    """Text in one part."""

    prefix: str
    part_type: str

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @abstractmethod
    def part(self, text: str) -> dict[str, Any]: ...

    @abstractmethod
    def written(self, status: str) -> dict[str, Any]: ...

    def grow(self, piece: str) -> ItemEvent:
        self._pieces.append(piece)
        return self._event("delta", delta=piece)

    def opening(self) -> Iterator[ItemEvent]:
        yield "content_part.added", {"content_index": 0, "part": self.part("")}

    def closing(self) -> Iterator[ItemEvent]:
        text = "".join(self._pieces)
        yield self._event("done", text=text)
        yield "content_part.done", {"content_index": 0, "part": self.part(text)}

    def status(self, is_cut: bool) -> str:
        return INCOMPLETE if is_cut else COMPLETED

    def parts(self, status: str) -> list[dict[str, Any]]:
        return [] if status == IN_PROGRESS else [self.part("".join(self._pieces))]

    def _event(self, name: str, **fields: Any) -> ItemEvent:
        return f"{self.part_type}.{name}", {"content_index": 0, **fields}


class Message(TextItem):
    """What the assistant says."""

    prefix = "msg"
    part_type = "output_text"

    def part(self, text: str) -> dict[str, Any]:
        return {"type": self.part_type, "text": text, "annotations": [], "logprobs": []}

    def written(self, status: str) -> dict[str, Any]:
        content = self.parts(status)
        return {"type": "message", "status": status, "role": "assistant", "content": content}

    def _event(self, name: str, **fields: Any) -> ItemEvent:
        return super()._event(name, **fields, logprobs=[])


class Reasoning(TextItem):
    """What the model thinks before it answers."""

    prefix = "rs"
    part_type = "reasoning_text"

    def part(self, text: str) -> dict[str, Any]:
        return {"type": self.part_type, "text": text}

    def written(self, status: str) -> dict[str, Any]:
        content = self.parts(status)
        return {"type": "reasoning", "status": status, "summary": [], "content": content}


class FunctionCall:
    """A call; one whose arguments break off is incomplete."""

    prefix = "fc"

    def __init__(self, call_id: str, name: str) -> None:
        self._call_id = call_id
        self._name = name
        self._pieces: list[str] = []

    def grow(self, piece: str) -> ItemEvent:
        self._pieces.append(piece)
        return "function_call_arguments.delta", {"delta": piece}

    def written(self, status: str) -> dict[str, Any]:
        arguments = "" if status == IN_PROGRESS else self._arguments
        head = {"type": "function_call", "status": status, "call_id": self._call_id}
        return {**head, "name": self._name, "arguments": arguments}

    def opening(self) -> Iterator[ItemEvent]:
        return iter(())

    def closing(self) -> Iterator[ItemEvent]:
        done = {"name": self._name, "arguments": self._arguments}
        yield "function_call_arguments.done", done

    def status(self, is_cut: bool) -> str:
        try:
            json.loads(self._arguments)
        except (ValueError, RecursionError):
            return INCOMPLETE
        return COMPLETED

    @property
    def _arguments(self) -> str:
        return "".join(self._pieces)
