"""The replies of each route as JSON schemas, for the OpenAPI document.

They name what clients may count on; objects may have more.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def constant(value: str) -> Schema:
    return {"type": "string", "enum": [value]}


def record(**properties: Schema) -> Schema:
    """An object that has all of them."""
    return {"type": "object", "properties": properties, "required": list(properties)}


ERROR = record(
    error=record(message=TEXT, type=TEXT, param=nullable(TEXT), code=nullable(TEXT)),
)
USAGE = record(
    prompt_tokens=_COUNT,
    completion_tokens=_COUNT,
    total_tokens=_COUNT,
    prompt_tokens_details=record(cached_tokens=_COUNT),
)
_STOP_REASON: Schema = {"anyOf": [TEXT, INTEGER, {"type": "null"}]}


def _answer(kind: str, **content: Schema) -> Schema:
    choice = record(index=_COUNT, finish_reason=TEXT, stop_reason=_STOP_REASON, **content)
    return record(
        id=TEXT,
        object=constant(kind),
        created=INTEGER,
        model=TEXT,
        choices=array(choice),
        usage=USAGE,
        seed=INTEGER,
    )


COMPLETION = _answer("text_completion", text=TEXT)
CHAT = _answer("chat.completion", message=record(role=constant("assistant")))
_OUTPUT_PART = record(type=TEXT, text=TEXT)
_OUTPUT_ITEM: Schema = {
    "anyOf": [
        record(type=constant("message"), id=TEXT, status=TEXT, content=array(_OUTPUT_PART)),
        record(type=constant("reasoning"), id=TEXT, status=TEXT, content=array(_OUTPUT_PART)),
        record(
            type=constant("function_call"),
            id=TEXT,
            status=TEXT,
            call_id=TEXT,
            name=TEXT,
            arguments=TEXT,
        ),
    ]
}
RESPONSE = record(
    id=TEXT,
    object=constant("response"),
    created_at=INTEGER,
    status=TEXT,
    model=TEXT,
    output=array(_OUTPUT_ITEM),
    usage=record(
        input_tokens=_COUNT,
        input_tokens_details=record(cached_tokens=_COUNT),
        output_tokens=_COUNT,
        output_tokens_details=record(reasoning_tokens=_COUNT),
        total_tokens=_COUNT,
    ),
    seed=INTEGER,
)
TOKENS = record(
    count=_COUNT,
    max_model_len=_COUNT,
    tokens=array(_COUNT),
    token_strs=nullable(array(TEXT)),
)
DETOKENIZED = record(prompt=TEXT)
MODEL = record(id=TEXT, object=constant("model"), created=INTEGER, max_model_len=_COUNT)
MODELS = record(object=constant("list"), data=array(MODEL))
STATUS = record(status=TEXT)
VERSION = record(version=TEXT)
