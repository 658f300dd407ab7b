"""The JSON object in a request's body, read strictly."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from dspark.errors import BodyTimeout, InvalidArgument, MessageTooLarge
from dspark.gateway.body_encoding import check_encoding
from dspark.gateway.disconnect import ClientGone
from dspark.gateway.field_path import field_path, readable
from dspark.gateway.shortened import shortened
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text

FIELD = "body"
MAX_KEYS = 100_000
# Longer bodies are parsed on a thread, so that streams go on.
_INLINE_BYTES = 256 * 1024


async def read_object(
    request: Request, max_bytes: int, timeout_s: float | None = None
) -> dict[str, Any]:
    """Raises InvalidArgument for what is no JSON object, MessageTooLarge for what is too long,
    UnsupportedEncoding for what is not plain UTF-8, and BodyTimeout for what does not come."""
    check_encoding(request.headers)
    try:
        async with asyncio.timeout(timeout_s):
            body = await _read(request, max_bytes)
    except TimeoutError:
        raise BodyTimeout(timeout_s or 0.0) from None
    if len(body) > _INLINE_BYTES:
        _check_keys(body)
        return await asyncio.to_thread(_object_of, body)
    return _object_of(body)


def _check_keys(body: bytes) -> None:
    """Raises InvalidArgument for so many keys that to read them would hold up the streams."""
    # Only keys have a colon behind their last quotation mark; inside a text it is escaped.
    num_keys = sum(body.count(end) - body.count(b"\\" + end) for end in (b'":', b'" :'))
    if num_keys > MAX_KEYS:
        raise InvalidArgument(FIELD, f"has more than {MAX_KEYS} keys in its objects")


def _object_of(body: bytes) -> dict[str, Any]:
    if not body:
        raise InvalidArgument(FIELD, "is empty; a JSON object is needed")
    ambiguous = _Ambiguous()
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=ambiguous.read,
        )
    except UnicodeDecodeError:
        raise InvalidArgument(FIELD, "is not valid UTF-8") from None
    except RecursionError:
        raise InvalidArgument(FIELD, "is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument(FIELD, f"is not valid JSON: {error}") from None
    except ValueError:  # the one thing left that int() refuses
        raise InvalidArgument(FIELD, "has an integer of too many digits") from None
    ambiguous.check(value)
    if not isinstance(value, dict):
        raise InvalidArgument(FIELD, "must be a JSON object")
    return value


async def _read(request: Request, max_bytes: int) -> bytes:
    # A declared length is trusted only to refuse early: the count below decides.
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise MessageTooLarge(max_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                raise MessageTooLarge(max_bytes)
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientGone from None
    return b"".join(chunks)


def _no_constant(name: str) -> NoReturn:
    raise InvalidArgument(FIELD, f"is not valid JSON: {name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidArgument(FIELD, f"the number {shortened(text)} is too large")
    return value


class _Ambiguous:
    """Objects with a key that is there twice: nobody can say which value is meant."""

    def __init__(self) -> None:
        # By identity: the object, so that the identity stays its own, and the key.
        self._found: dict[int, tuple[dict[str, Any], str]] = {}

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """The object; raises InvalidArgument for a key that is no text."""
        value = dict(pairs)
        for key in value:
            if not is_text(key):
                problem = f"the key {shortened(readable(key))} {LONE_SURROGATE}"
                raise InvalidArgument(FIELD, problem)
        if len(value) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self._found[id(value)] = value, next(key for key in counts if counts[key] > 1)
        return value

    def check(self, root: Any) -> None:
        """Raises InvalidArgument with the path of the first repeated key inside ``root``."""
        places: list[tuple[tuple[int | str, ...], Any]] = [((), root)] if self._found else []
        while places:
            path, value = places.pop()
            if id(value) in self._found:
                _, key = self._found[id(value)]
                raise InvalidArgument(field_path((*path, key)), "is given more than once")
            children = value.items() if isinstance(value, dict) else enumerate(value)
            inner = [((*path, at), v) for at, v in children if isinstance(v, (dict, list))]
            places += reversed(inner)
