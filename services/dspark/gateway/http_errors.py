"""The one table from errors to HTTP answers in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from dspark.errors import DSparkError

# OpenAI's own words where clients look for them; else the reason in lower case.
_CODES = {
    "CONTEXT_LENGTH": "context_length_exceeded",
    "QUEUE_FULL": "rate_limit_exceeded",
    "UNAUTHENTICATED": "invalid_api_key",
}
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_RETRY_AFTER_S = "1"
CLIENT_GONE_STATUS = 499


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def body_of(error: DSparkError) -> dict[str, Any]:
    """The error's JSON object, for a response or an event of a stream."""
    code = _CODES.get(error.reason, error.reason.lower())
    param = error.metadata.get("field", "model" if "model" in error.metadata else None)
    return error_body(error.http_status, error.message, param, code)


def event_of(error: DSparkError) -> bytes:
    """The error as a server-sent event."""
    return f"data: {json.dumps(body_of(error))}\n\n".encode()


def response_of(error: DSparkError) -> JSONResponse:
    retry = error.http_status in (429, 503)
    headers = {"Retry-After": _RETRY_AFTER_S} if retry else None
    return JSONResponse(body_of(error), error.http_status, headers)
