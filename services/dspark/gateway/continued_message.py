"""A prompt that ends inside its last message, for the model to go on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dspark.errors import InvalidArgument

FIELD = "continue_final_message"
# As transformers has it. The blank tells whether the template strips what a message ends with.
_MARK = "CONTINUE_FINAL_MESSAGE_TAG "


def marked(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with a mark behind the last one's text.

    Raises InvalidArgument where the last one has no text to go on with.
    """
    *before, last = messages
    text = last.get("content")
    if not isinstance(text, str):
        raise InvalidArgument(FIELD, "the last message has no content to go on with")
    return [*map(dict, before), {**last, "content": text + _MARK}]


def cut_behind(rendered: str, last: Mapping[str, Any]) -> str:
    """The prompt up to the mark; raises InvalidArgument if the template left the message out."""
    at = rendered.rfind(_MARK.strip())
    if at < 0 or last["content"].strip() not in rendered:
        raise InvalidArgument(FIELD, "the chat template does not write the last message in full")
    is_spaced = rendered.startswith(_MARK, at)
    return rendered[:at] if is_spaced else rendered[:at].rstrip()
