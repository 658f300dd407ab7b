from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from dspark import rpc
from dspark.config import SettingError
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc

SERVICE = "dspark.v1.SchedulerService"


class SlowServicer(pb_grpc.SchedulerServiceServicer):
    """Answers when ``release`` is set."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.release = asyncio.Event()

    async def GetSchedulerStatus(
        self, request: pb.GetSchedulerStatusRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetSchedulerStatusResponse:
        self.called.set()
        await self.release.wait()
        return pb.GetSchedulerStatusResponse(num_running=3)


@pytest.fixture
async def servicer() -> SlowServicer:
    return SlowServicer()


@pytest.fixture
async def server(servicer: SlowServicer) -> AsyncIterator[rpc.Server]:
    server = rpc.Server([SERVICE])
    pb_grpc.add_SchedulerServiceServicer_to_server(servicer, server.grpc)
    yield server
    await server.stop(grace=0)


@pytest.fixture
async def channel(server: rpc.Server) -> AsyncIterator[aio.Channel]:
    port = await server.start("127.0.0.1:0")
    async with rpc.channel(f"127.0.0.1:{port}") as channel:
        yield channel


async def health(channel: aio.Channel, service: str) -> health_pb2.HealthCheckResponse:
    stub = health_pb2_grpc.HealthStub(channel)
    return await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)


async def test_the_process_is_alive_before_the_service_is_ready(
    server: rpc.Server, channel: aio.Channel
) -> None:
    assert (await health(channel, "")).status == health_pb2.HealthCheckResponse.SERVING
    assert not await rpc.is_ready(channel, SERVICE, timeout=10)
    await server.set_ready(True)
    assert await rpc.is_ready(channel, SERVICE, timeout=10)
    await server.set_ready(False)
    assert not await rpc.is_ready(channel, SERVICE, timeout=10)


async def test_an_unknown_service_is_not_ready(channel: aio.Channel) -> None:
    assert not await rpc.is_ready(channel, "dspark.v1.Nothing", timeout=10)
    with pytest.raises(aio.AioRpcError) as caught:
        await health(channel, "dspark.v1.Nothing")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_nobody_at_the_address_is_not_ready(unused_tcp_port: int) -> None:
    async with rpc.channel(f"127.0.0.1:{unused_tcp_port}") as channel:
        assert not await rpc.is_ready(channel, SERVICE)


async def test_reflection_lists_the_service(channel: aio.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(timeout=10)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.done_writing()
    names = [
        service.name async for reply in call for service in reply.list_services_response.service
    ]
    assert {SERVICE, "grpc.health.v1.Health"} <= set(names)


async def test_a_unix_socket_serves(tmp_path: Path) -> None:
    server = rpc.Server([SERVICE])
    address = f"unix:{tmp_path}/scheduler.sock"
    await server.start(address)
    await server.set_ready(True)
    async with rpc.channel(address) as channel:
        assert await rpc.is_ready(channel, SERVICE, timeout=10)
    await server.stop(grace=0)


async def test_stopping_says_not_serving_and_lets_a_running_call_end(
    servicer: SlowServicer, server: rpc.Server, channel: aio.Channel
) -> None:
    await server.set_ready(True)
    stub = pb_grpc.SchedulerServiceStub(channel)
    call = asyncio.ensure_future(
        stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest(), timeout=10)
    )
    await servicer.called.wait()
    watch = health_pb2_grpc.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(service=SERVICE), timeout=10
    )
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    stopping = asyncio.ensure_future(server.stop(grace=10))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    watch.cancel()
    servicer.release.set()
    assert (await call).num_running == 3
    await stopping


async def test_a_second_server_on_the_port_fails(server: rpc.Server) -> None:
    port = await server.start("127.0.0.1:0")
    second = rpc.Server([SERVICE])
    with pytest.raises(SettingError, match="cannot listen on"):
        await second.start(f"127.0.0.1:{port}")
