"""The JSON object in a request's body, read strictly."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from dspark.errors import DSparkError, InvalidArgument
from dspark.gateway.disconnect import ClientGone

FIELD = "body"


class BodyTooLarge(DSparkError):
    """The request's body is over the limit."""

    reason = "INVALID_ARGUMENT"
    code = "INVALID_ARGUMENT"
    http_status = 413


async def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """Raises InvalidArgument for what is no JSON object, BodyTooLarge for what is too long."""
    body = await _read(request, max_bytes)
    if not body:
        raise InvalidArgument(FIELD, "is empty; a JSON object is needed")
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise InvalidArgument(FIELD, "is not valid UTF-8") from None
    except RecursionError:
        raise InvalidArgument(FIELD, "is nested too deeply") from None
    except ValueError as error:
        raise InvalidArgument(FIELD, f"is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(FIELD, "must be a JSON object")
    return value


async def _read(request: Request, max_bytes: int) -> bytes:
    # A declared length is trusted only to refuse early: the count below decides.
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(max_bytes)
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientGone from None
    return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"{FIELD}: is larger than {max_bytes} bytes", {"field": FIELD})


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value
