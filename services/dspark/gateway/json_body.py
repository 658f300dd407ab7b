"""The JSON object in a request's body, read strictly."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from dspark.errors import BodyTimeout, InvalidArgument, MessageTooLarge
from dspark.gateway.body_encoding import check_encoding
from dspark.gateway.body_limits import BodyLimits
from dspark.gateway.disconnect import ClientGone
from dspark.gateway.field_path import field_path, readable
from dspark.gateway.json_counts import FIELD, check_counts
from dspark.gateway.shortened import shortened
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text

# Longer bodies are read on a thread, so that streams go on.
INLINE_BYTES = 64 * 1024
Body = TypeVar("Body")


async def read_body(
    request: Request, limits: BodyLimits, parse: Callable[[Mapping[str, Any]], Body]
) -> Body:
    """What ``parse`` makes of the object; it may run on another thread.

    Raises InvalidArgument for what is no JSON object, MessageTooLarge for what is too long,
    UnsupportedEncoding for what is not plain UTF-8, BodyTimeout for what does not come, and
    whatever ``parse`` raises.
    """
    check_encoding(request.headers)
    try:
        async with asyncio.timeout(limits.timeout_s):
            body = await _read(request, limits.max_bytes)
    except TimeoutError:
        raise BodyTimeout(limits.timeout_s or 0.0) from None
    if len(body) <= INLINE_BYTES:
        return parse(object_of(body))
    return await asyncio.to_thread(_parsed, body, limits.max_values, parse)


def _parsed(body: bytes, max_values: int, parse: Callable[[Mapping[str, Any]], Body]) -> Body:
    check_counts(body, max_values)
    return parse(object_of(body))


def object_of(body: bytes) -> dict[str, Any]:
    """The JSON object; raises InvalidArgument for anything else."""
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
