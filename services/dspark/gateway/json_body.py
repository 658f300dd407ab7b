"""The JSON object in a request's body, read strictly."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from dspark.errors import DSparkError, InvalidArgument
from dspark.gateway.body_encoding import check_encoding
from dspark.gateway.disconnect import ClientGone
from dspark.gateway.shortened import shortened
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text

FIELD = "body"


class BodyTooLarge(DSparkError):
    """The request's body is over the limit."""

    reason = "INVALID_ARGUMENT"
    code = "INVALID_ARGUMENT"
    http_status = 413


async def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """Raises InvalidArgument for what is no JSON object, BodyTooLarge for what is too long, and
    UnsupportedEncoding for what is not plain UTF-8."""
    check_encoding(request.headers)
    body = await _read(request, max_bytes)
    if not body:
        raise InvalidArgument(FIELD, "is empty; a JSON object is needed")
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_distinct,
        )
    except UnicodeDecodeError:
        raise InvalidArgument(FIELD, "is not valid UTF-8") from None
    except RecursionError:
        raise InvalidArgument(FIELD, "is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument(FIELD, f"is not valid JSON: {error}") from None
    except ValueError:  # the one thing left that int() refuses
        raise InvalidArgument(FIELD, "has an integer of too many digits") from None
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
    raise InvalidArgument(FIELD, f"is not valid JSON: {name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidArgument(FIELD, f"the number {shortened(text)} is too large")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; of a key that is there twice, nobody can say which value is meant."""
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key in counts if counts[key] > 1)
        raise InvalidArgument(shortened(_readable(key)), "is given more than once")
    for key in value:
        if not is_text(key):
            raise InvalidArgument(FIELD, f"the key {shortened(_readable(key))} {LONE_SURROGATE}")
    return value


def _readable(key: str) -> str:
    """The key, as JSON escapes it if it is no text."""
    return key if is_text(key) else json.dumps(key)
