"""A body is one JSON object in plain UTF-8, each key once; every refusal says what is wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
from starlette.requests import Request
from starlette.types import Message

from dspark.errors import DSparkError, InvalidArgument
from dspark.gateway import json_body
from dspark.gateway.body_limits import BodyLimits
from dspark.gateway.json_body import object_of, read_body
from dspark.gateway.shortened import MAX_CHARS

LONG = "k" * 5000


def _request(body: bytes, **headers: str) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    raw = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
    return Request({"type": "http", "headers": raw}, receive)


async def _read(body: bytes, max_values: int = 100_000, **headers: str) -> Mapping[str, Any]:
    limits = BodyLimits(max_bytes=10**7, max_values=max_values)
    return await read_body(_request(body, **headers), limits, lambda fields: fields)


async def _refusal(body: bytes, **headers: str) -> DSparkError:
    with pytest.raises(DSparkError) as caught:
        await _read(body, **headers)
    assert len(caught.value.message) < 3 * MAX_CHARS
    caught.value.message.encode()
    return caught.value


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"seed": 1, "prompt": "x", "seed": 2}', "seed"),
        (b'{"seed": 1, "\\u0073eed": 1}', "seed"),
        (b'{"speculation": {"enabled": true, "enabled": false}}', "speculation.enabled"),
        (b'{"messages": [{"role": "user", "role": "user"}]}', "messages[0].role"),
        (
            b'{"messages": [{}, {"content": [7, {"text": "a", "text": "b"}]}]}',
            "messages[1].content[1].text",
        ),
        (b'{"a": {"x": 1, "x": 2}, "a": 3}', "a"),
        (b'{"a": [{"x": 1, "x": 1}], "b": {"y": 1, "y": 1}}', "a[0].x"),
        (b'[{"x": 1, "x": 1}]', "[0].x"),
        (b'{"a":' * 200 + b'{"b": 1, "b": 1}' + b"}" * 200, f"{'a.' * 200}"[:MAX_CHARS] + "…"),
        (f'{{"{LONG}": 1, "{LONG}": 2}}'.encode(), f"{LONG[:MAX_CHARS]}…"),
    ],
)
async def test_a_key_given_twice_is_named(body: bytes, key: str) -> None:
    error = await _refusal(body)
    assert isinstance(error, InvalidArgument)
    assert error.message == f"{key}: is given more than once"
    assert error.field == key


@pytest.mark.parametrize(
    "body",
    [
        b'{"\\ud800": 1}',
        b'{"user": {"\\ud800x": 1}}',
        b'{"\\ud800": 1, "\\ud800": 2}',
    ],
)
async def test_a_key_that_is_no_text_is_shown_escaped(body: bytes) -> None:
    error = await _refusal(body)
    assert error.metadata["field"] == "body"
    assert "lone surrogate" in error.message
    assert '"\\ud800' in error.message


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "9" * 5000 + ".0e999"])
async def test_a_number_too_long_is_refused_in_our_words(number: str) -> None:
    error = await _refusal(b'{"seed": ' + number.encode() + b"}")
    assert error.metadata["field"] == "body"
    assert "digits" in error.message or "too large" in error.message
    assert "sys." not in error.message


@pytest.mark.parametrize(
    ("headers", "field", "word"),
    [
        ({"content_encoding": "gzip"}, "Content-Encoding", "gzip"),
        ({"content_encoding": "identity, br"}, "Content-Encoding", "br"),
        ({"content_encoding": "x" * 5000}, "Content-Encoding", "uncompressed"),
        ({"content_type": "application/json; charset=latin-1"}, "Content-Type", "latin-1"),
        ({"content_type": 'text/plain; charset="UTF-16"'}, "Content-Type", "utf-16"),
    ],
)
async def test_a_body_that_is_not_plain_utf_8_is_a_415(
    headers: dict[str, str], field: str, word: str
) -> None:
    error = await _refusal(b'{"prompt": "x"}', **headers)
    assert (error.http_status, error.metadata) == (415, {"field": field})
    assert word in error.message


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_encoding": "identity", "content_type": "application/json"},
        {"content_type": 'application/json; charset="UTF-8"'},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": ";;"},
        {"content_type": ""},
    ],
)
async def test_any_media_type_is_read_as_json(headers: dict[str, Any]) -> None:
    assert await _read(b'{"prompt": "\xc3\xa9"}', **headers) == {"prompt": "é"}


async def test_a_large_body_is_counted_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = mock.Mock(side_effect=object_of)
    monkeypatch.setattr(json_body, "object_of", parsed)
    body = json.dumps({"prompt": [1] * 50_000}).encode()
    assert len(body) > json_body.INLINE_BYTES
    with pytest.raises(InvalidArgument, match="body: has more than 40000 values"):
        await _read(body, max_values=40_000)
    assert parsed.call_count == 0
    assert len((await _read(body, max_values=60_000))["prompt"]) == 50_000
    assert parsed.call_count == 1


async def test_a_large_body_is_parsed_away_from_the_loop() -> None:
    def thread_of(fields: Mapping[str, Any]) -> int:
        return threading.get_ident()

    limits = BodyLimits(max_bytes=10**7, max_values=100)
    for text, is_here in (("x" * 10, True), ("x" * json_body.INLINE_BYTES, False)):
        body = json.dumps({"prompt": text}).encode()
        thread = await read_body(_request(body), limits, thread_of)
        assert (thread == threading.get_ident()) is is_here
