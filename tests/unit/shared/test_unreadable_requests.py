"""Bytes that are no message are the caller's error, with a reason, on every kind of method."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio

from dspark import errors, rpc
from dspark.v1 import candidates_service_pb2 as candidates_pb
from dspark.v1 import candidates_service_pb2_grpc as candidates_grpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc

SERVICE = "dspark.v1.InferenceService"
WHOLE = pb.GenerateRequest(text="hello").SerializeToString()
BROKEN = {
    "no message": b"\xff" * 4,
    "truncated": b"\x0a\x05he",
    "invalid UTF-8": b"\x0a\x05he\xfflo",
}
UNARY = ["/dspark.v1.InferenceService/ListModels", "/grpc.health.v1.Health/Check"]
SERVER_STREAMS = ["/dspark.v1.InferenceService/Generate", "/grpc.health.v1.Health/Watch"]
EXCHANGES = [
    "/dspark.v1.CandidatesService/StreamPropose",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]


class EchoServicer(pb_grpc.InferenceServiceServicer):
    """Streams the request's text back."""

    async def Generate(
        self, request: pb.GenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.GenerateResponse]:
        yield pb.GenerateResponse(chunk=pb.GenerateChunk(text=request.text))


class CountingServicer(candidates_grpc.CandidatesServiceServicer):
    """Answers each message of the exchange with an empty one."""

    async def StreamPropose(
        self,
        requests: AsyncIterator[candidates_pb.StreamProposeRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[candidates_pb.StreamProposeResponse]:
        async for _ in requests:
            yield candidates_pb.StreamProposeResponse()


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    server = rpc.Server([SERVICE])
    pb_grpc.add_InferenceServiceServicer_to_server(EchoServicer(), server.grpc)
    candidates_grpc.add_CandidatesServiceServicer_to_server(CountingServicer(), server.grpc)
    port = await server.start("127.0.0.1:0")
    async with rpc.channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(grace=0)


def _check(error: aio.AioRpcError) -> None:
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    rebuilt = rpc.from_rpc_error(error, "server")
    assert isinstance(rebuilt, errors.InvalidArgument)
    assert rebuilt.field == "request"
    assert "cannot be parsed" in rebuilt.message


@pytest.mark.parametrize("method", UNARY)
@pytest.mark.parametrize("data", [BROKEN["no message"], BROKEN["truncated"]])
async def test_of_a_unary_call(channel: Any, method: str, data: bytes) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        await channel.unary_unary(method)(data, timeout=10)
    _check(caught.value)


@pytest.mark.parametrize("method", SERVER_STREAMS)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
async def test_of_a_server_stream(channel: Any, method: str, data: bytes) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        async for _ in channel.unary_stream(method)(data, timeout=10):
            pass
    _check(caught.value)


@pytest.mark.parametrize("method", EXCHANGES)
async def test_of_an_exchange_after_a_good_one(channel: Any, method: str) -> None:
    call = channel.stream_stream(method)(timeout=10)
    await call.write(b"")
    assert isinstance(await call.read(), bytes)
    await call.write(BROKEN["no message"])
    with pytest.raises(aio.AioRpcError) as caught:
        await call.read()
    _check(caught.value)


async def test_the_connection_serves_on(channel: Any) -> None:
    call = channel.unary_stream(SERVER_STREAMS[0])
    with pytest.raises(aio.AioRpcError):
        await call(BROKEN["invalid UTF-8"], timeout=10).read()
    good = await call(WHOLE, timeout=10).read()
    assert pb.GenerateResponse.FromString(good).chunk.text == "hello"
