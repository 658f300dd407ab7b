"""The one table from errors to HTTP answers in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from dspark.errors import DSparkError
from dspark.gateway.event_stream import server_sent

# OpenAI's own words where clients look for them; else the reason in lower case.
_CODES = {
    "CONTEXT_LENGTH": "context_length_exceeded",
    "QUEUE_FULL": "rate_limit_exceeded",
    "RATE_LIMITED": "rate_limit_exceeded",
    "UNAUTHENTICATED": "invalid_api_key",
}
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
# Whoever starts, stops or is lost does not say when to try again.
_UNAVAILABLE_S = 1
CLIENT_GONE_STATUS = 499


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def body_of(error: DSparkError) -> dict[str, Any]:
    """The error's JSON object, for a response or an event of a stream."""
    error = error.for_strangers()
    code = _CODES.get(error.reason, error.reason.lower())
    param = error.metadata.get("field", "model" if "model" in error.metadata else None)
    return error_body(error.http_status, error.message, param, code)


def event_of(error: DSparkError) -> bytes:
    """The error as a server-sent event."""
    return server_sent(json.dumps(body_of(error)))


def response_of(error: DSparkError) -> JSONResponse:
    retry_after_s = error.retry_after_s
    if retry_after_s is None and error.http_status == 503:
        retry_after_s = _UNAVAILABLE_S
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body_of(error), error.http_status, headers)
