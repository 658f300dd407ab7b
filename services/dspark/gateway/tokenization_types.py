"""The request bodies of /tokenize and /detokenize: vLLM's names and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import Prompt, TextPrompt
from dspark.gateway.openai_chat_types import Message
from dspark.gateway.openai_requests import chat_request, parse_chat, validated
from dspark.gateway.openai_types import ListOf, Strict, Text

_CHAT_FIELDS = (
    "model",
    "messages",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "chat_template_kwargs",
    "tools",
    "functions",
    "reasoning_effort",
)


class TokenizeBody(Strict):
    """POST /tokenize: a prompt, or messages."""

    model: Text | None = None
    prompt: Text | None = None
    messages: ListOf[Message] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Strict):
    """POST /detokenize."""

    model: Text | None = None
    tokens: ListOf[int]


def parse_tokenize(fields: Mapping[str, Any]) -> tuple[TokenizeBody, Prompt]:
    """Raises InvalidArgument or UnsupportedField that names the field."""
    # Whatever lays out a chat is read as a chat request reads it.
    chat = {name: fields[name] for name in fields if name in _CHAT_FIELDS}
    rest = {name: fields[name] for name in fields if name not in chat or name == "model"}
    body = validated(TokenizeBody, rest)
    if chat.get("messages") is not None:
        if body.prompt is not None:
            raise InvalidArgument("messages", "cannot be given beside prompt")
        return body, chat_request(parse_chat(chat), "").prompt
    for name in _CHAT_FIELDS:
        if chat.get(name) is not None and name != "model":
            raise InvalidArgument(name, "needs messages")
    if body.prompt is None:
        raise InvalidArgument("prompt", "is required, or messages are")
    return body, TextPrompt(body.prompt)


def parse_detokenize(fields: Mapping[str, Any]) -> DetokenizeBody:
    """Raises InvalidArgument that names the field."""
    return validated(DetokenizeBody, dict(fields))
