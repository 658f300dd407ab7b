"""Random JSON Schemas whose values are short: what users ask for, in any combination."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_NAMES = (
    "name age city street country email phone title price count id status tags items notes "
    "color size weight height date owner address kind level score enabled rating url author year"
).split()
_WORDS = ("red", "green", "blue", "small", "large", "open", "closed", "draft", "New York", "é")
_PATTERNS = ("^[a-z]{2,6}$", "^[A-Z]{3}-[0-9]{2}$", "^(north|south)(east|west)?$", "^#[0-9a-f]{6}$")
_FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email")


def random_schema(seed: int) -> Schema:
    """An object of up to three levels; the same one for the same seed."""
    generator = random.Random(seed)
    schema = _object(generator, depth=2)
    if generator.random() < 0.2:
        schema = _with_definition(generator, schema)
    return schema


def _any(generator: random.Random, depth: int) -> Schema:
    makers: list[Callable[[random.Random, int], Schema]] = [_string, _number, _scalar, _enum]
    if depth > 0:
        makers += [_object, _array, _either]
    return generator.choice(makers)(generator, depth)


def _object(generator: random.Random, depth: int) -> Schema:
    names = generator.sample(_NAMES, generator.randint(1, 4))
    required = [name for name in names if generator.random() < 0.7] or names[:1]
    return {
        "type": "object",
        "properties": {name: _any(generator, depth - 1) for name in names},
        "required": required,
        "additionalProperties": False,
    }


def _array(generator: random.Random, depth: int) -> Schema:
    least = generator.randint(0, 2)
    return {
        "type": "array",
        "items": _any(generator, depth - 1),
        "minItems": least,
        "maxItems": least + generator.randint(0, 2),
    }


def _either(generator: random.Random, depth: int) -> Schema:
    return {"anyOf": [_any(generator, depth - 1), {"type": "null"}]}


def _string(generator: random.Random, depth: int) -> Schema:
    kind = generator.randrange(4)
    if kind == 0:
        return {"type": "string", "pattern": generator.choice(_PATTERNS)}
    if kind == 1:
        return {"type": "string", "format": generator.choice(_FORMATS), "maxLength": 40}
    return {"type": "string", "minLength": kind - 2, "maxLength": generator.randint(3, 16)}


def _number(generator: random.Random, depth: int) -> Schema:
    low = generator.randint(-100, 100)
    bounds = {"minimum": low, "maximum": low + generator.randint(1, 1000)}
    return {"type": "integer", **bounds}


def _scalar(generator: random.Random, depth: int) -> Schema:
    return generator.choice(
        [{"type": "boolean"}, {"type": "null"}, {"const": generator.choice(_WORDS)}]
    )


def _enum(generator: random.Random, depth: int) -> Schema:
    values: list[Any] = generator.sample(_WORDS, generator.randint(1, 4))
    return {"enum": [*values, generator.randint(0, 9)]}


def _with_definition(generator: random.Random, schema: Schema) -> Schema:
    """A part that is named and used twice."""
    part = _object(generator, depth=1)
    properties = {**schema["properties"], "first": {"$ref": "#/$defs/part"}}
    properties["others"] = {"type": "array", "items": {"$ref": "#/$defs/part"}, "maxItems": 1}
    required = [*schema["required"], "first"]
    return {
        **schema,
        "$defs": {"part": part},
        "properties": properties,
        "required": required,
    }
