"""Chat templates, rendered as Hugging Face transformers renders them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from dspark.errors import InvalidArgument
from dspark.gateway.continued_message import cut_behind, marked

MAX_REASON_CHARS = 500


class _GenerationBlocks(Extension):
    """``{% generation %}`` marks assistant text for training; in a prompt its body is all."""

    tags = {"generation"}  # noqa: RUF012 - the type that Jinja declares

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Dict:
    """``dict`` in templates: makes dicts, and has nothing to break out by."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """``namespace`` in templates, without attributes that lead into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # ``self`` is no name here, so that a template may have an attribute of that name.
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _check_attribute(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _check_attribute(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot have the attribute {name!r}")


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
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A template's source and tokens, and the names that it reads and does not set."""

    source: str
    tokens: Mapping[str, str]
    variables: frozenset[str]


class ChatTemplate:
    """Lays out a conversation as a prompt that ends where the assistant's turn begins.

    To read a template is to run some of it already: constant expressions are evaluated.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        environment = _environment()
        try:
            variables = frozenset(meta.find_undeclared_variables(environment.parse(source)))
            self.text = TemplateText(source, dict(tokens), variables)
            self._template = environment.from_string(source)
        except (jinja2.TemplateSyntaxError, RecursionError) as error:
            raise ValueError(f"the chat template is broken: {error}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        max_chars: int | None = None,
    ) -> str:
        """Raises InvalidArgument when the template refuses the conversation, or writes too much.

        With ``continue_final_message`` the prompt ends with the last message's text.
        """
        turns = [dict(message) for message in messages]
        given = {
            **self.text.tokens,
            **(variables or {}),
            "messages": marked(turns) if continue_final_message else turns,
            "tools": None if tools is None else list(tools),
            "documents": None if documents is None else list(documents),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            text = self._text(given, max_chars)
        except Exception as error:  # a template may fail in any way that Python can
            reason = str(error)[:MAX_REASON_CHARS] or type(error).__name__
            problem = f"the chat template refuses them: {reason}"
            raise InvalidArgument("messages", problem) from error
        return cut_behind(text, turns[-1]) if continue_final_message else text

    def _text(self, given: Mapping[str, Any], max_chars: int | None) -> str:
        pieces: list[str] = []
        size = 0
        for piece in self._template.generate(**given):
            size += len(piece)
            if max_chars is not None and size > max_chars:
                raise ValueError(f"it writes more than {max_chars} characters")
            pieces.append(piece)
        return "".join(pieces)
