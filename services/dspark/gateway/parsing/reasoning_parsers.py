"""The one list of ways in which models reason before they answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from dspark.gateway.parsing.think_tags import CLOSING, OPENING, Stage


class ReasoningParser(Protocol):
    """How a family of models marks its reasoning."""

    def start(self, is_open: bool | None) -> Stage:
        """The stage in which an answer begins; whether the prompt left reasoning open.

        None means that the prompt does not say.
        """
        ...


class DeepSeekR1:
    """`deepseek_r1`: an answer is reasoning up to ``</think>``, with or without ``<think>``."""

    def start(self, is_open: bool | None) -> Stage:
        return Stage.CONTENT if is_open is False else Stage.REASONING


class Qwen3:
    """`qwen3`: an answer has reasoning only if ``<think>`` begins it, or ends its prompt."""

    def start(self, is_open: bool | None) -> Stage:
        if is_open is None:
            return Stage.OPENING
        return Stage.REASONING if is_open else Stage.CONTENT


PARSERS: Mapping[str, ReasoningParser] = MappingProxyType(
    {"deepseek_r1": DeepSeekR1(), "qwen3": Qwen3()}
)
NONE = "none"
CHOICES = (NONE, *PARSERS)


def open_at_end(prompt: str) -> bool | None:
    """Whether the prompt ends with a tag that opens or closes reasoning; None for neither.

    Tags elsewhere may be words of the conversation.
    """
    text = prompt.rstrip()
    if text.endswith(OPENING):
        return True
    return False if text.endswith(CLOSING) else None


def open_within(message: str) -> bool | None:
    """As ``open_at_end``, for a message of the assistant that its answer goes on with."""
    opened, closed = message.rfind(OPENING), message.rfind(CLOSING)
    return None if opened == closed else opened > closed
