"""Which fields ask for structured output, and what is refused about them by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import StructureWish
from dspark.gateway.openai_requests import (
    chat_request,
    completion_request,
    parse_chat,
    parse_completion,
)
from dspark.structured_output import Structure
from dspark.structured_output import StructuredOutput as Output

SCHEMA = {"type": "object", "properties": {"ü": {"type": "integer"}}}
MESSAGES = [{"role": "user", "content": "hi"}]


def wish(**fields: Any) -> StructureWish | None:
    completion = completion_request(parse_completion({"prompt": "hi", **fields}), "r").structure
    chat = chat_request(parse_chat({"messages": MESSAGES, **fields}), "r").structure
    assert completion == chat
    return chat


def json_schema(**fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, **fields}}


@pytest.mark.parametrize(
    ("fields", "output", "label"),
    [
        ({"response_format": {"type": "json_object"}}, Output.json_object(), "response_format"),
        (
            {"response_format": json_schema()},
            Output.json_schema(SCHEMA),
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": json_schema(strict=True, description="a thing")},
            Output.json_schema(SCHEMA),
            "response_format.json_schema.schema",
        ),
        (
            {"structured_outputs": {"json": SCHEMA}},
            Output.json_schema(SCHEMA),
            "structured_outputs.json",
        ),
        (
            {"structured_outputs": {"json": json.dumps(SCHEMA)}},
            Output.json_schema(json.dumps(SCHEMA)),
            "structured_outputs.json",
        ),
        (
            {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": False}},
            Output.json_schema(SCHEMA, any_whitespace=True),
            "structured_outputs.json",
        ),
        (
            {"structured_outputs": {"json_object": True, "disable_fallback": False}},
            Output.json_object(),
            "structured_outputs.json_object",
        ),
        (
            {"structured_outputs": {"regex": "a+", "json_object": False}},
            Output.regex("a+"),
            "structured_outputs.regex",
        ),
        (
            {"structured_outputs": {"choice": ["a", "b"]}},
            Output.choice(["a", "b"]),
            "structured_outputs.choice",
        ),
        ({"guided_grammar": "start: x"}, Output.grammar("start: x"), "guided_grammar"),
        ({"guided_json": SCHEMA}, Output.json_schema(SCHEMA), "guided_json"),
        ({"guided_choice": ["a"]}, Output.choice(["a"]), "guided_choice"),
        ({"guided_regex": "a"}, Output.regex("a"), "guided_regex"),
    ],
)
def test_each_form(fields: dict[str, Any], output: Output, label: str) -> None:
    assert wish(**fields) == StructureWish(output, label)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": {"type": "text"}},
        {"response_format": None},
        {"structured_outputs": None, "guided_json": None},
    ],
)
def test_any_text_will_do(fields: dict[str, Any]) -> None:
    assert wish(**fields) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {**json_schema(), "type": "json_object"}},
            "response_format.json_schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": json_schema(schema=[1])},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": json_schema(schema={"a": "\ud800"})},
            "response_format.json_schema.schema",
        ),
        ({"response_format": json_schema(extra=1)}, "response_format.json_schema.extra"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": "a"}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice[1]"),
        ({"structured_outputs": {"what": 1}}, "structured_outputs.what"),
        (
            {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}},
            "structured_outputs.whitespace_pattern",
        ),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"regex": "a", "grammar": "b"}}, "structured_outputs.grammar"),
        (
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
            "structured_outputs.regex",
        ),
        ({"structured_outputs": {"regex": "a"}, "guided_regex": "a"}, "guided_regex"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wish(**fields)
    assert caught.value.field == field


def test_a_schema_that_is_too_deep_is_named() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(InvalidArgument) as caught:
        wish(guided_json=schema)
    assert caught.value.field.startswith("guided_json")


def test_the_schema_is_sent_as_it_came() -> None:
    found = wish(guided_json={"b": 1, "a": 1.5})
    assert found is not None
    assert found.output.structure is Structure.JSON_SCHEMA
    assert found.output.text == '{"b": 1, "a": 1.5}'
