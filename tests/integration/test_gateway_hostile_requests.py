"""Huge, wrong and hostile input: a clear answer, while a stream beside it goes on undisturbed."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dspark.gateway import http_protocol
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack, sse_events

NEIGHBOUR = "neighbour"
MANY = 10**5


def _of(**fields: Any) -> bytes:
    return json.dumps({"prompt": "hi", **fields}).encode()


def _bias(num_bytes: int) -> bytes:
    entry = '"%d":1.5,'
    entries = "".join(entry % index for index in range(num_bytes // len(entry)))
    return b'{"prompt":"hi","logit_bias":{' + entries.encode() + b'"x":1}}'


# What is sent, and the status and field of the answer.
HOSTILE: dict[str, tuple[bytes, int, str | None]] = {
    "a million choices": (_of(n=10**6), 400, "n"),
    "choices beyond any integer": (_of(n=10**400), 400, "n"),
    "too many choices over many prompts": (_of(prompt=["a"] * 100, n=100), 400, "n"),
    "a hundred thousand prompts": (_of(prompt=["a"] * MANY), 400, "prompt"),
    "a hundred thousand stop strings": (_of(stop=["x"] * MANY), 400, "stop"),
    "a huge stop string": (_of(stop="x" * 10**6), 400, "stop"),
    "ten megabytes of bias": (_bias(10**7), 413, None),
    "five megabytes of bias": (_bias(5 * 10**6), 400, "body"),
    "half a megabyte of bias": (_bias(5 * 10**5), 400, "logit_bias"),
    "a hundred thousand stop tokens": (_of(stop_token_ids=[1] * MANY), 400, "stop_token_ids"),
    "a huge grammar": (
        _of(structured_outputs={"regex": "(a|b)*" * MANY}),
        400,
        "structured_outputs",
    ),
    "a prompt of millions of characters": (_of(prompt="x" * 5 * 10**6), 400, "prompt"),
    "a prompt of millions of tokens": (_of(prompt=[1] * 10**6), 400, "prompt"),
    "a number that is none": (b'{"prompt":"hi","temperature":NaN}', 400, "body"),
    "an infinite number": (b'{"prompt":"hi","temperature":1e999}', 400, "body"),
    "an integer of many digits": (b'{"prompt":"hi","seed":' + b"9" * MANY + b"}", 400, "body"),
    "deep lists": (b'{"prompt":' + b"[" * MANY + b"]" * MANY + b"}", 400, "body"),
    "deep objects": (b'{"prompt":' + b'{"a":' * MANY + b"1" + b"}" * MANY + b"}", 400, "body"),
    "a deep list that never ends": (b'{"prompt":' + b"[" * MANY, 400, "body"),
    "bytes that are no text": (b'{"prompt":"\xff\xfe"}', 400, "body"),
    "half a character": (b'{"prompt":"\\ud800"}', 400, "prompt"),
    "many keys that are none": (
        json.dumps({"prompt": "hi", **{f"k{i}": i for i in range(MANY // 2)}}).encode(),
        400,
        "k0",
    ),
    "many keys in a part": (
        _of(speculation={f"k{i}": i for i in range(MANY // 2)}),
        400,
        "speculation",
    ),
    "the same key again and again": (
        b"{" + b'"prompt":"hi",' * (MANY // 2) + b'"prompt":"hi"}',
        400,
        "prompt",
    ),
    "nothing": (b"", 400, "body"),
    "zeros": (b"\0" * MANY, 400, "body"),
}


@asynccontextmanager
async def beside(stack: GatewayStack) -> AsyncIterator[None]:
    """A stream runs before, during and after the block, and has all its tokens once."""
    num_tokens = 60
    stack.scheduler.script = Script(runs_of(NEIGHBOUR), repeat=True, delay_s=0.005)
    body = {"prompt": "hi", "stream": True, "max_tokens": num_tokens, "return_token_ids": True}
    # On a connection of its own, as another client has.
    async with httpx.AsyncClient(base_url=stack.base_url, timeout=60.0) as client:
        reply = asyncio.create_task(client.post("/v1/completions", json=body))
        async with asyncio.timeout(10):
            while stack.scheduler.num_sent < 3:
                await asyncio.sleep(0.005)
        yield
        *events, done = sse_events((await reply).text)
    text = "".join(event["choices"][0]["text"] for event in events)
    assert done == "[DONE]"
    assert text == (NEIGHBOUR * num_tokens)[:num_tokens]
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert stack.scheduler.cancelled == []


@pytest.mark.parametrize(("body", "status", "param"), HOSTILE.values(), ids=HOSTILE)
async def test_it_is_refused_by_name_beside_a_stream(
    stack: GatewayStack, body: bytes, status: int, param: str | None
) -> None:
    async with beside(stack):
        reply = await stack.client.post("/v1/completions", content=body)
        assert reply.status_code == status
        error = reply.json()["error"]
        assert error["param"] == param
        assert len(error["message"]) < 400
    assert len(stack.scheduler.requests) == 1


async def test_many_broken_messages_are_refused_beside_a_stream(stack: GatewayStack) -> None:
    async with beside(stack):
        for path, field in (("/v1/chat/completions", "messages"), ("/v1/responses", "input")):
            reply = await stack.client.post(path, json={field: [1] * MANY})
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, f"{field}[0]")


async def test_connections_that_send_nothing_disturb_nobody(
    stack: GatewayStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 1.0)
    port = stack.server.http_port
    async with beside(stack):
        silent = [
            await asyncio.open_connection("127.0.0.1", port, family=socket.AF_INET)
            for _ in range(1000)
        ]
        assert (await stack.client.get("/health")).status_code == 200
        assert (await stack.complete(max_tokens=3)).status_code == 200
        # Each is closed by the server, without a word.
        assert await asyncio.gather(*(reader.read() for reader, _ in silent)) == [b""] * 1000
        for _, writer in silent:
            writer.close()


async def test_a_body_that_does_not_come_is_a_408(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, body_timeout_s=0.1) as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.server.http_port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"body_timeout" in await reader.readuntil(b"}}")
        writer.close()


async def test_embeddings_are_refused_in_words(stack: GatewayStack) -> None:
    reply = await stack.client.post("/v1/embeddings", json={"input": "hi", "model": "x"})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["type"]) == ("unsupported_endpoint", "invalid_request_error")
    assert "no embeddings" in error["message"]


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ({"traceparent": PARENT}, {"traceparent": PARENT}),
        (
            {"traceparent": PARENT, "tracestate": "a=1,b=2"},
            {"traceparent": PARENT, "tracestate": "a=1,b=2"},
        ),
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": "00-0-0-00"}, {}),
        ({"traceparent": PARENT, "tracestate": "x" * 600}, {"traceparent": PARENT}),
        ({}, {}),
    ],
)
async def test_trace_headers_are_echoed(
    stack: GatewayStack, sent: dict[str, str], echoed: dict[str, str]
) -> None:
    for path in ("/health", "/nothing", "/v1/models"):
        headers = (await stack.client.get(path, headers=sent)).headers
        got = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        assert got == echoed
