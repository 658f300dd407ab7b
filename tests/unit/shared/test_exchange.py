from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import aio

from dspark import rpc
from dspark.errors import BackendUnavailable, NotReady, StaleStep
from dspark.exchange import Exchange
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc

SERVICE = "dspark.v1.VerifierService"
SLOW, STALE, BUG = 100, 200, 300


class Echo(pb_grpc.VerifierServiceServicer):
    """Answers each turn with its own step id; some ids make trouble."""

    def __init__(self) -> None:
        self.num_streams = 0

    async def StreamStep(
        self,
        requests: AsyncIterator[pb.StreamStepRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.StreamStepResponse]:
        self.num_streams += 1
        async for request in requests:
            step_id = request.step.step_id
            if step_id == SLOW:
                await asyncio.Event().wait()
            if step_id == STALE:
                raise StaleStep(step_id, step_id + 1)
            if step_id == BUG:
                raise ZeroDivisionError
            yield pb.StreamStepResponse(step=pb.StepResponse(step_id=step_id))


class Caller:
    def __init__(self, target: str) -> None:
        self.channel = rpc.channel(target)
        stub = pb_grpc.VerifierServiceStub(self.channel)
        self.exchange: Exchange[pb.StreamStepRequest, pb.StreamStepResponse] = Exchange(
            lambda: stub.StreamStep(), "verifier"
        )

    async def call(self, step_id: int, timeout_s: float = 10.0) -> int:
        request = pb.StreamStepRequest(step=pb.StepRequest(step_id=step_id))
        return (await self.exchange.call(request, timeout_s)).step.step_id

    async def close(self) -> None:
        self.exchange.close()
        await self.channel.close()


@asynccontextmanager
async def serving(address: str = "127.0.0.1:0") -> AsyncIterator[tuple[Echo, rpc.Server, str]]:
    server, echo = rpc.Server([SERVICE]), Echo()
    pb_grpc.add_VerifierServiceServicer_to_server(echo, server.grpc)
    port = await server.start(address)
    try:
        yield echo, server, f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=5)


@pytest.fixture
async def echo_and_caller() -> AsyncIterator[tuple[Echo, Caller]]:
    async with serving() as (echo, _, target):
        caller = Caller(target)
        yield echo, caller
        await caller.close()


async def test_turns_share_one_stream(echo_and_caller: tuple[Echo, Caller]) -> None:
    echo, caller = echo_and_caller
    assert [await caller.call(step_id) for step_id in range(5)] == list(range(5))
    assert await asyncio.gather(*map(caller.call, range(5))) == list(range(5))
    assert echo.num_streams == 1


@pytest.mark.parametrize("error", [StaleStep, BackendUnavailable])
async def test_a_failed_turn_raises_and_the_next_one_opens_a_new_stream(
    echo_and_caller: tuple[Echo, Caller], error: type[Exception]
) -> None:
    echo, caller = echo_and_caller
    assert await caller.call(1) == 1
    step_id, timeout_s = (STALE, 10.0) if error is StaleStep else (SLOW, 0.05)
    with pytest.raises(error):
        await caller.call(step_id, timeout_s)
    assert await caller.call(2) == 2
    assert echo.num_streams == 2


async def test_a_bug_is_an_internal_error_without_details(
    echo_and_caller: tuple[Echo, Caller], caplog: pytest.LogCaptureFixture
) -> None:
    _, caller = echo_and_caller
    with pytest.raises(Exception, match="internal error"):
        await caller.call(BUG)
    assert any(record.exc_info for record in caplog.records)
    assert await caller.call(2) == 2


async def test_a_caller_that_gives_up_leaves_no_reply_behind(
    echo_and_caller: tuple[Echo, Caller],
) -> None:
    _, caller = echo_and_caller
    call = asyncio.create_task(caller.call(SLOW))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await caller.call(3) == 3


async def test_an_idle_stream_does_not_delay_the_end_and_survives_a_restart() -> None:
    async with serving() as (_, server, target):
        caller = Caller(target)
        assert await caller.call(1) == 1
        await asyncio.wait_for(server.stop(grace=60), timeout=20)
    with pytest.raises((BackendUnavailable, NotReady)):
        await caller.call(2, timeout_s=5.0)
    async with serving(target):
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await caller.call(3, timeout_s=5.0) == 3
                    break
                except BackendUnavailable:
                    await asyncio.sleep(0.05)
        await caller.close()
