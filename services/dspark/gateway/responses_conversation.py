"""The items of the Responses API as the turns of a chat (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import ChatMessage
from dspark.gateway.responses_types import (
    FunctionCallItem,
    FunctionOutputItem,
    InputItem,
    MessageItem,
    ReasoningItem,
    TextPart,
)
from dspark.tool_calls import ToolCall

# Developers speak in the place of the system, for which templates have one role.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def conversation(items: Sequence[InputItem]) -> list[ChatMessage]:
    """Raises InvalidArgument that names the item.

    What the assistant thought, said and called in a row is one turn of a chat, as it was when the
    assistant gave it.
    """
    turns = _Turns()
    for index, item in enumerate(items):
        turns.add(item, f"input[{index}]")
    return turns.messages


class _Turns:
    """The turns so far."""

    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []
        self._call_ids: set[str] = set()

    def add(self, item: InputItem, path: str) -> None:
        match item:
            case MessageItem(role="assistant"):
                self._say(_text(item.content))
            case MessageItem():
                if item.role not in _ROLES:
                    raise InvalidArgument(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
                self.messages.append(ChatMessage(_ROLES[item.role], _text(item.content)))
            case ReasoningItem():
                self._think(_text(item.content or ()))
            case FunctionCallItem():
                self._call(ToolCall(item.call_id, item.name, item.arguments))
            case FunctionOutputItem():
                if item.call_id not in self._call_ids:
                    raise InvalidArgument(f"{path}.call_id", "is of no function_call before it")
                answer = ChatMessage("tool", _text(item.output), tool_call_id=item.call_id)
                self.messages.append(answer)

    def _think(self, reasoning: str) -> None:
        if reasoning:
            self.messages.append(ChatMessage("assistant", "", reasoning=reasoning))

    def _say(self, text: str) -> None:
        turn = self._turn()
        # A message right behind a message is a turn of its own.
        if turn is None or (turn.content and not turn.tool_calls):
            self.messages.append(ChatMessage("assistant", text))
        else:
            self.messages[-1] = replace(turn, content=(turn.content or "") + text)

    def _call(self, call: ToolCall) -> None:
        self._call_ids.add(call.id)
        turn = self._turn()
        if turn is None:
            self.messages.append(ChatMessage("assistant", None, tool_calls=(call,)))
        else:
            calls = (*turn.tool_calls, call)
            self.messages[-1] = replace(turn, content=turn.content or None, tool_calls=calls)

    def _turn(self) -> ChatMessage | None:
        """The assistant's, if it is the last."""
        last = self.messages[-1] if self.messages else None
        return last if last is not None and last.role == "assistant" else None


def _text(content: str | Sequence[TextPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content)
