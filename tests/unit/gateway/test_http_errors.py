"""Every error has one answer in OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from dspark import errors
from dspark.gateway.http_errors import body_of, event_of, response_of

CASES = [
    (errors.InvalidArgument("top_p", "x"), 400, "invalid_request_error", "invalid_argument"),
    (errors.UnsupportedField("n"), 400, "invalid_request_error", "unsupported_field"),
    (
        errors.ContextLength("prompt", "x", limit=1, given=2),
        400,
        "invalid_request_error",
        "context_length_exceeded",
    ),
    (errors.ModelNotFound("a", "b"), 404, "invalid_request_error", "model_not_found"),
    (errors.MessageTooLarge(8), 413, "invalid_request_error", "message_too_large"),
    (errors.PermissionDenied("x"), 403, "invalid_request_error", "permission_denied"),
    (errors.DuplicateRequest("r"), 409, "invalid_request_error", "duplicate_request"),
    (errors.QueueFull("x"), 429, "rate_limit_error", "rate_limit_exceeded"),
    (errors.Overloaded("x"), 529, "server_error", "overloaded"),
    (errors.Unauthenticated("x"), 401, "authentication_error", "invalid_api_key"),
    (errors.NotReady("x"), 503, "server_error", "not_ready"),
    (errors.Draining("x"), 503, "server_error", "draining"),
    (errors.BackendUnavailable("s", "x"), 503, "server_error", "backend_unavailable"),
    (errors.DeadlineExceeded("x"), 504, "server_error", "deadline_exceeded"),
    (errors.InternalError("x"), 500, "server_error", "internal"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), CASES)
def test_an_error_becomes(error: errors.DSparkError, status: int, kind: str, code: str) -> None:
    response = response_of(error)
    assert response.status_code == status
    assert ("retry-after" in response.headers) == (status in (429, 503, 529))
    assert ("www-authenticate" in response.headers) == (status == 401)
    again = response_of(type(error)("x").retry_in(17)) if status in (429, 529) else None
    assert again is None or again.headers["retry-after"] == "17"
    body = json.loads(bytes(response.body))
    param = error.metadata.get("field") or ("model" if code == "model_not_found" else None)
    # Whoever calls is not told what the services behind say of each other.
    message = "s: does not answer" if status == 503 and code.startswith("back") else error.message
    expected = {"message": message, "type": kind, "param": param, "code": code}
    assert body == body_of(error) == {"error": expected}
    assert json.loads(event_of(error).removeprefix(b"data: ")) == body
    assert event_of(error).endswith(b"\n\n")
