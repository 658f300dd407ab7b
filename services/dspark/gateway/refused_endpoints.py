"""Endpoints that clients of other servers know and that generate nothing."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.gateway.http_errors import error_body

_CODE = "unsupported_endpoint"
# No 5xx, which clients would try again.
_STATUS = 400


async def embeddings(request: Request) -> Response:
    """Whatever the body says: there is no model for it."""
    message = "this server generates text and makes no embeddings"
    return JSONResponse(error_body(_STATUS, message, None, _CODE), _STATUS)
