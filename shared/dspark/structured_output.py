"""What a generated text must be, as a plain value (wire form: sampling.proto)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Structure(Enum):
    """The forms that a text can be held to; the value is the field's name on the wire."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """One form and its text: a JSON Schema, a regular expression or a grammar.

    A choice has ``choices`` instead, a JSON object neither. ``any_whitespace`` lets JSON have
    whitespace of any kind between its parts; without, one space follows each comma and colon.
    """

    structure: Structure
    text: str = ""
    choices: tuple[str, ...] = ()
    any_whitespace: bool = False

    @classmethod
    def json_schema(
        cls, schema: Mapping[str, Any] | str, *, any_whitespace: bool = False
    ) -> StructuredOutput:
        """A JSON value that meets a JSON Schema, given as an object or as its text."""
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        return cls(Structure.JSON_SCHEMA, text, any_whitespace=any_whitespace)

    @classmethod
    def json_object(cls, *, any_whitespace: bool = False) -> StructuredOutput:
        """Any JSON object."""
        return cls(Structure.JSON_OBJECT, any_whitespace=any_whitespace)

    @classmethod
    def regex(cls, pattern: str) -> StructuredOutput:
        """A text that a regular expression matches as a whole."""
        return cls(Structure.REGEX, pattern)

    @classmethod
    def choice(cls, texts: Iterable[str]) -> StructuredOutput:
        """One of the texts."""
        return cls(Structure.CHOICE, choices=tuple(texts))

    @classmethod
    def grammar(cls, text: str) -> StructuredOutput:
        """A text that a context-free grammar derives, in Lark's or GBNF's notation."""
        return cls(Structure.GRAMMAR, text)

    @property
    def num_chars(self) -> int:
        """The size of all its texts."""
        return len(self.text) + sum(map(len, self.choices))
