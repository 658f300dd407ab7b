"""Huge, wrong and hostile input: a clear answer, while a stream beside it goes on undisturbed."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import httpx
import pytest

from dspark import rpc
from dspark.gateway import http_protocol
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack, sse_events
from harness.hostile_bodies import BODIES, HEAVY
from harness.hostile_messages import GENERATE, MESSAGES
from harness.loop_lag import loop_lag

NEIGHBOUR = "neighbour"
# In processor time, for what takes some hundredths: a busy machine makes that longer as well, and
# here the client and the scheduler run on the loop too.
MAX_LAG_S = 0.4
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@asynccontextmanager
async def beside(stack: GatewayStack, max_lag_s: float = MAX_LAG_S) -> AsyncIterator[None]:
    """A stream runs before, during and after the block, has all its tokens once, and does not stand
    still for long.
    """
    num_tokens = 60
    stack.scheduler.script = Script(runs_of(NEIGHBOUR), repeat=True, delay_s=0.005)
    body = {"prompt": "hi", "stream": True, "max_tokens": num_tokens, "return_token_ids": True}
    # On a connection of its own, as another client has.
    async with httpx.AsyncClient(base_url=stack.base_url, timeout=60.0) as client:
        reply = asyncio.create_task(client.post("/v1/completions", json=body))
        async with asyncio.timeout(10):
            while stack.scheduler.num_sent < 3:
                await asyncio.sleep(0.005)
        async with loop_lag() as lag:
            yield
        assert lag.longest_s < max_lag_s
        *events, done = sse_events((await reply).text)
    text = "".join(event["choices"][0]["text"] for event in events)
    assert done == "[DONE]"
    assert text == (NEIGHBOUR * num_tokens)[:num_tokens]
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert stack.scheduler.cancelled == []


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_is_refused_by_name_beside_a_stream(stack: GatewayStack, name: str) -> None:
    hostile = BODIES[name]
    async with beside(stack):
        reply = await stack.client.post(hostile.path, content=hostile.body)
        error = reply.json()["error"]
        assert (reply.status_code, error["param"]) == (hostile.status, hostile.param)
        assert len(error["message"]) < 400
    assert len(stack.scheduler.requests) == 1


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_message_is_refused_by_name_beside_a_stream(stack: GatewayStack, name: str) -> None:
    hostile = MESSAGES[name]
    async with beside(stack), rpc.channel(stack.grpc_target) as channel:
        path = f"/dspark.v1.InferenceService/{hostile.method}"
        opened = channel.unary_stream if hostile.method == GENERATE else channel.unary_unary
        call = opened(path)(hostile.message)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        details = await call.details()
        assert details.startswith(hostile.problem)
        assert len(details) < 400
    assert len(stack.scheduler.requests) == 1


@pytest.mark.parametrize("name", HEAVY)
async def test_heavy_requests_are_served_beside_a_stream(stack: GatewayStack, name: str) -> None:
    heavy = HEAVY[name]
    async with beside(stack):
        assert (await stack.client.post(heavy.path, content=heavy.body)).status_code == 200


async def test_an_endless_template_is_cut_beside_a_stream(tmp_path: Path) -> None:
    settings = {"allow_chat_template": True, "chat_template_timeout_s": 2.0}
    async with gateway_stack(tmp_path, **settings) as stack, beside(stack):
        for template, problem in ((ENDLESS, "takes longer"), ("{{ 1 // 0 }}", "zero")):
            reply = await stack.chat(chat_template=template)
            assert reply.status_code == 400
            assert problem in reply.json()["error"]["message"]


async def test_a_message_that_unpacks_to_a_huge_one_is_refused(stack: GatewayStack) -> None:
    message = pb.GenerateRequest(text="x" * 10**8).SerializeToString()
    # Packing it is the client's work, in this process too.
    async with beside(stack, math.inf), rpc.channel(stack.grpc_target) as channel:
        call = channel.unary_stream("/dspark.v1.InferenceService/Generate")(
            message, compression=grpc.Compression.Gzip
        )
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


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


async def test_bodies_that_come_drop_by_drop_are_cut(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, body_timeout_s=1.0) as stack, beside(stack):
        port = stack.server.http_port

        async def slow() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
            answer = asyncio.create_task(reader.readuntil(b"\r\n"))
            while not answer.done():
                writer.write(b" ")
                await asyncio.wait({answer}, timeout=0.2)
            writer.close()
            return answer.result()

        answers = await asyncio.gather(*(slow() for _ in range(200)))
        assert {answer.split()[1] for answer in answers} == {b"408"}
        assert (await stack.client.get("/health")).status_code == 200


async def test_silent_connections_to_grpc_disturb_nobody(stack: GatewayStack) -> None:
    port = stack.server.grpc_port
    async with beside(stack), rpc.channel(stack.grpc_target) as channel:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1000)]
        request = pb.TokenizeRequest(text="hi")
        reply = await pb_grpc.InferenceServiceStub(channel).Tokenize(request)
        assert len(reply.token_ids) == 2
        for _, writer in silent:
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
