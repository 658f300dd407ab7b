"""Chat templates, rendered as Hugging Face transformers renders them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dspark.errors import InvalidArgument
from dspark.gateway.tokenizer import read_json


class _GenerationBlocks(Extension):
    """``{% generation %}`` marks assistant text for training; in a prompt its body is all."""

    tags = {"generation"}  # noqa: RUF012 - the type that Jinja declares

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML characters, which would change what the model reads.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlocks, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """Lays out a conversation as a prompt that ends where the assistant's turn begins."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._tokens = dict(tokens)
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(f"the chat template is broken: {error}") from error

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Raises InvalidArgument when the template refuses the conversation."""
        try:
            return self._template.render(
                messages=[dict(m) for m in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._tokens,
            )
        except Exception as error:  # a template may fail in any way that Python can
            raise InvalidArgument("messages", f"the chat template refuses them: {error}") from error


def load_chat_template(model_dir: Path, tokens: Mapping[str, str]) -> ChatTemplate | None:
    """The model's template: chat_template.jinja, else chat_template of tokenizer_config.json."""
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        return ChatTemplate(path.read_text(encoding="utf-8"), tokens)
    readers: list[Callable[[], Any]] = [
        lambda: read_json(model_dir / "chat_template.json").get("chat_template"),
        lambda: read_json(model_dir / "tokenizer_config.json").get("chat_template"),
    ]
    for read in readers:
        source = _default_template(read())
        if source is not None:
            return ChatTemplate(source, tokens)
    return None


def _default_template(declared: Any) -> str | None:
    if isinstance(declared, str):
        return declared
    if isinstance(declared, list):
        named = {entry.get("name"): entry.get("template") for entry in declared}
        return named.get("default")
    return None
