"""The fields of the OpenAI surface that ask for structured output: OpenAI's, and vLLM's names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import StructureWish
from dspark.gateway.openai_types import CommonFields, ResponseFormat
from dspark.gateway.shortened import shortened
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text
from dspark.structured_output import StructuredOutput

FORMATS = ("text", "json_object", "json_schema")
# The older names of vLLM stand beside each other in the body itself.
_GUIDED = ("json", "regex", "choice", "grammar")


def structure_wish(body: CommonFields) -> StructureWish | None:
    """What the body asks for; raises InvalidArgument where that is not one thing."""
    wishes = list(_wishes(body))
    if len(wishes) > 1:
        first, second = wishes[0].label, wishes[1].label
        raise InvalidArgument(second, f"cannot go with {first}: a text has one structure")
    return wishes[0] if wishes else None


def _wishes(body: CommonFields) -> Iterator[StructureWish]:
    if body.response_format is not None:
        wish = _of_format(body.response_format)
        if wish is not None:
            yield wish
    options = body.structured_outputs
    if options is not None:
        any_whitespace = options.disable_any_whitespace is False
        given = {
            "json": options.json_,
            "regex": options.regex,
            "choice": options.choice,
            "grammar": options.grammar,
            "json_object": options.json_object,
        }
        found = list(_of_options(given, "structured_outputs.", any_whitespace))
        if not found:
            names = ", ".join(given)
            raise InvalidArgument("structured_outputs", f"one of {names} must be set")
        yield from found
    guided = {name: getattr(body, f"guided_{name}") for name in _GUIDED}
    yield from _of_options(guided, "guided_", any_whitespace=False)


def format_wish(
    kind: str, schema: dict[str, Any] | None, label: str, holder: str, schema_label: str
) -> StructureWish | None:
    """What a format of OpenAI's asks for, None for plain text.

    ``label``, ``holder`` and ``schema_label`` name in errors the format, its field that is there
    for a schema, and the schema. Raises InvalidArgument.
    """
    if kind not in FORMATS:
        problem = f"{shortened(kind)!r} is not one of {', '.join(FORMATS)}"
        raise InvalidArgument(f"{label}.type", problem)
    if (kind == "json_schema") != (schema is not None):
        problem = "is required" if schema is None else f"is not for the type {kind}"
        raise InvalidArgument(holder, problem)
    if kind == "json_object":
        return StructureWish(StructuredOutput.json_object(), label)
    if schema is None:
        return None
    return StructureWish(_schema(schema, schema_label, any_whitespace=False), schema_label)


def _of_format(response_format: ResponseFormat) -> StructureWish | None:
    described = response_format.json_schema
    schema = None if described is None else described.schema_
    holder = "response_format.json_schema"
    label = "response_format"
    return format_wish(response_format.type, schema, label, holder, f"{holder}.schema")


def _of_options(
    given: Mapping[str, Any], prefix: str, any_whitespace: bool
) -> Iterator[StructureWish]:
    for name, value in given.items():
        if value is not None and value is not False:
            label = f"{prefix}{name}"
            yield StructureWish(_FORMS[name](value, label, any_whitespace), label)


def _schema(value: dict[str, Any] | str, label: str, any_whitespace: bool) -> StructuredOutput:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise InvalidArgument(label, "is nested too deeply") from None
    if not is_text(text):
        raise InvalidArgument(label, LONE_SURROGATE)
    return StructuredOutput.json_schema(text, any_whitespace=any_whitespace)


_FORMS: Mapping[str, Callable[[Any, str, bool], StructuredOutput]] = {
    "json": _schema,
    "regex": lambda value, label, any_whitespace: StructuredOutput.regex(value),
    "choice": lambda value, label, any_whitespace: StructuredOutput.choice(value),
    "grammar": lambda value, label, any_whitespace: StructuredOutput.grammar(value),
    "json_object": lambda value, label, any_whitespace: StructuredOutput.json_object(
        any_whitespace=any_whitespace
    ),
}
