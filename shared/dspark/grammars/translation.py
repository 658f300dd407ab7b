"""Structured outputs in llguidance's own notation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llguidance import LLMatcher, grammar_from

from dspark.grammars.refusal import GrammarRefused
from dspark.structured_output import Structure, StructuredOutput

if TYPE_CHECKING:
    # Only its stubs have it.
    from llguidance._lib import JsonCompileOptions

# What json.dumps writes. A form that is settled leaves no choice about most tokens between values.
_SETTLED_WHITESPACE: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
_ANY_WHITESPACE: JsonCompileOptions = {
    "whitespace_flexible": True,
    "item_separator": ",",
    "key_separator": ":",
}
_ANY_OBJECT = '{"type": "object"}'


def grammar_text(output: StructuredOutput) -> str:
    """The grammar that llguidance compiles; raises GrammarRefused for what has no translation."""
    match output.structure:
        case Structure.JSON_SCHEMA:
            return _of_schema(output.text, output.any_whitespace)
        case Structure.JSON_OBJECT:
            return _of_schema(_ANY_OBJECT, output.any_whitespace)
        case Structure.REGEX:
            return LLMatcher.grammar_from_regex(output.text)
        case Structure.CHOICE:
            return _of_choices(output.choices)
        case Structure.GRAMMAR:
            return _of_grammar(output.text)


def _of_schema(schema: str, any_whitespace: bool) -> str:
    whitespace = _ANY_WHITESPACE if any_whitespace else _SETTLED_WHITESPACE
    try:
        is_object = isinstance(json.loads(schema), dict)
    except RecursionError:
        raise GrammarRefused("is nested too deeply") from None
    except ValueError as error:
        raise GrammarRefused(f"is no JSON: {error}") from None
    if not is_object:
        raise GrammarRefused("must be a JSON object")
    return LLMatcher.grammar_from_json_schema(schema, overrides=whitespace)


def _of_choices(choices: tuple[str, ...]) -> str:
    if not choices:
        raise GrammarRefused("must have at least one text")
    if not all(choices):
        raise GrammarRefused("must have no empty text")
    texts = " | ".join(json.dumps(text, ensure_ascii=False) for text in dict.fromkeys(choices))
    return LLMatcher.grammar_from_lark(f"start: {texts}")


def _of_grammar(text: str) -> str:
    try:
        return grammar_from("grammar", text)
    except (ValueError, RecursionError) as error:
        raise GrammarRefused(f"is no grammar: {error}") from None
