"""What the OpenAPI document says of replies: statuses, media types and their schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dspark.gateway import openapi_schemas as schemas
from dspark.gateway.openapi_schemas import Schema

Responses = dict[int | str, dict[str, Any]]

_DESCRIPTIONS = {
    400: "a wrong, unknown or unsupported field, which is named; a broken body",
    401: "no valid API key",
    404: "another model, or path, than is served",
    405: "another method",
    408: "the body did not come in time",
    413: "the body is too large",
    415: "the body is compressed, or no UTF-8",
    429: "too many requests wait, or the API key may use no more",
    500: "a bug",
    503: "starting, stopping, or a service behind does not answer",
    504: "the request ran over its time",
    529: "the request would wait too long",
}
_ALWAYS = (400, 401, 500, 503)
READING = (404, 408, 413, 415)
GENERATING = (*READING, 429, 504, 529)


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def errors(*statuses: int) -> Responses:
    """Each in the one shape that errors have."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": _json(schemas.ERROR)}
        for status in sorted(set(statuses))
    }


def replies(schema: Schema, statuses: Sequence[int] = (), *, can_stream: bool = False) -> Responses:
    """A JSON reply, or with ``can_stream`` server-sent events, and the errors in their place."""
    content = _json(schema)
    if can_stream:
        content["text/event-stream"] = {}
    answered: Responses = {200: {"description": "the answer", "content": content}}
    return {**answered, **errors(*_ALWAYS, *statuses)}


def probed(schema: Schema) -> Responses:
    """A probe, which says in the same words whether all is well or not."""
    return {
        200: {"description": "it is", "content": _json(schema)},
        503: {"description": "it is not, and why", "content": _json(schema)},
        **errors(400),
    }


def path_parameter(name: str) -> dict[str, Any]:
    """A part of the path, of which the endpoint itself says nothing."""
    return {"name": name, "in": "path", "required": True, "schema": schemas.TEXT}


def bearer_security(document: dict[str, Any], open_paths: Sequence[str]) -> None:
    """Adds to the document that paths need an API key, but for the open ones."""
    scheme = {"type": "http", "scheme": "bearer"}
    document.setdefault("components", {})["securitySchemes"] = {"apiKey": scheme}
    for path, operations in document["paths"].items():
        if path not in open_paths:
            for operation in operations.values():
                operation["security"] = [{"apiKey": []}]
