"""Every error keeps its class, message and metadata across a real connection."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from dspark import errors, rpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc

SERVICE = "dspark.v1.InferenceService"
EXAMPLES: list[errors.DSparkError] = [
    errors.InvalidArgument("top_p", "must be above 0"),
    errors.UnsupportedField("logit_bias"),
    errors.ContextLength("prompt", "too long", limit=2048, given=3000),
    errors.ModelNotFound("x", "y"),
    errors.UnknownRequest("r1"),
    errors.StaleStep(7, 9),
    errors.DuplicateRequest("r1"),
    errors.QueueFull("64 requests wait"),
    errors.Overloaded("it would wait for 70 s").retry_in(40),
    errors.RateLimited("max_concurrency", "the key runs 4 choices"),
    errors.BodyTimeout(60),
    errors.NotReady("the model is loading"),
    errors.Draining("shutting down"),
    errors.BackendUnavailable("verifier", "connection refused"),
    errors.DeadlineExceeded("the call took longer than 5 s"),
    errors.Unauthenticated("no API key"),
    errors.MessageTooLarge(64),
    errors.InternalError("a bug"),
]


class FailingServicer(pb_grpc.InferenceServiceServicer):
    """Raises what it is told to; the stream does so after one event."""

    def __init__(self) -> None:
        self.error: Exception = RuntimeError("unset")

    async def ListModels(
        self, request: pb.ListModelsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.ListModelsResponse:
        raise self.error

    async def Generate(
        self, request: pb.GenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.GenerateResponse]:
        yield pb.GenerateResponse(chunk=pb.GenerateChunk(text="one"))
        raise self.error


@pytest.fixture
async def servicer() -> AsyncIterator[FailingServicer]:
    yield FailingServicer()


@pytest.fixture
async def stub(servicer: FailingServicer) -> AsyncIterator[pb_grpc.InferenceServiceStub]:
    server = rpc.Server([SERVICE])
    pb_grpc.add_InferenceServiceServicer_to_server(servicer, server.grpc)
    port = await server.start("127.0.0.1:0")
    async with rpc.channel(f"127.0.0.1:{port}") as channel:
        yield pb_grpc.InferenceServiceStub(channel)
    await server.stop(grace=0)


async def unary_error(stub: pb_grpc.InferenceServiceStub) -> aio.AioRpcError:
    with pytest.raises(aio.AioRpcError) as caught:
        await stub.ListModels(pb.ListModelsRequest(), timeout=10)
    return caught.value


async def stream_error(stub: pb_grpc.InferenceServiceStub) -> aio.AioRpcError:
    received = []
    with pytest.raises(aio.AioRpcError) as caught:
        async for event in stub.Generate(pb.GenerateRequest(), timeout=10):
            received.append(event.chunk.text)
    assert received == ["one"]
    return caught.value


def test_the_examples_cover_every_error_class() -> None:
    classes = {cls for cls in vars(errors).values() if isinstance(cls, type)}
    concrete = {c for c in classes if issubclass(c, errors.DSparkError)} - {errors.DSparkError}
    assert {type(error) for error in EXAMPLES} == concrete - {errors.PermissionDenied}


@pytest.mark.parametrize("call", [unary_error, stream_error])
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
async def test_an_error_arrives_as_it_was_raised(
    servicer: FailingServicer,
    stub: pb_grpc.InferenceServiceStub,
    error: errors.DSparkError,
    call: object,
) -> None:
    servicer.error = error
    received = await call(stub)  # type: ignore[operator]
    assert received.code() is grpc.StatusCode[error.code]
    rebuilt = rpc.from_rpc_error(received, "gateway")
    assert type(rebuilt) is type(error)
    assert rebuilt.message == error.message
    assert rebuilt.metadata == error.metadata
    assert rebuilt.http_status == error.http_status
    assert rebuilt.retry_after_s == error.retry_after_s


async def test_a_service_that_refuses_its_caller_is_one_that_cannot_be_used(
    servicer: FailingServicer, stub: pb_grpc.InferenceServiceStub
) -> None:
    servicer.error = errors.PermissionDenied("not you")
    received = await unary_error(stub)
    assert received.code() is grpc.StatusCode.PERMISSION_DENIED
    rebuilt = rpc.from_rpc_error(received, "scheduler")
    assert type(rebuilt) is errors.BackendUnavailable
    assert rebuilt.message == "scheduler: PERMISSION_DENIED: not you"


async def test_a_field_error_still_knows_its_field(
    servicer: FailingServicer, stub: pb_grpc.InferenceServiceStub
) -> None:
    servicer.error = errors.InvalidArgument("top_p", "must be above 0")
    rebuilt = rpc.from_rpc_error(await unary_error(stub), "gateway")
    assert isinstance(rebuilt, errors.InvalidArgument)
    assert rebuilt.field == "top_p"


async def test_a_full_queue_says_when_to_try_again(
    servicer: FailingServicer, stub: pb_grpc.InferenceServiceStub
) -> None:
    servicer.error = errors.QueueFull("64 requests wait")
    status = rpc_status.from_call(cast(grpc.Call, await unary_error(stub)))
    assert status is not None
    retry_info = error_details_pb2.RetryInfo()
    assert [detail.Unpack(retry_info) for detail in status.details] == [False, True]
    assert retry_info.retry_delay.ToSeconds() == errors.QueueFull.retry_after_s


@pytest.mark.parametrize("call", [unary_error, stream_error])
async def test_a_bug_is_logged_here_and_hidden_there(
    servicer: FailingServicer,
    stub: pb_grpc.InferenceServiceStub,
    caplog: pytest.LogCaptureFixture,
    call: object,
) -> None:
    servicer.error = RuntimeError("secret detail")
    with caplog.at_level(logging.ERROR):
        received = await call(stub)  # type: ignore[operator]
    assert type(rpc.from_rpc_error(received, "gateway")) is errors.InternalError
    assert "secret" not in (received.details() or "")
    assert "secret detail" in caplog.text


async def test_no_server_at_all_is_backend_unavailable(unused_tcp_port: int) -> None:
    async with rpc.channel(f"127.0.0.1:{unused_tcp_port}") as channel:
        received = await unary_error(pb_grpc.InferenceServiceStub(channel))
    rebuilt = rpc.from_rpc_error(received, "scheduler")
    assert type(rebuilt) is errors.BackendUnavailable
    assert rebuilt.metadata == {"service": "scheduler"}
