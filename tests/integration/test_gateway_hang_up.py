"""A client that goes away stops the work behind it within a second, wherever it stands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from dspark import rpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import GatewayStack, gateway_stack

QUEUED = Script(start_delay_s=60)
FIRST_TOKEN = Script(runs_of("a"), hang=True)
MID_STREAM = Script(runs_of("abc"), repeat=True, delay_s=0.02)
ABORTED = 'vllm:request_success_total{engine="0",finished_reason="abort"'
HangUp = Callable[[GatewayStack, int], Coroutine[Any, Any, None]]


async def _reach(stack: GatewayStack, num_tokens: int) -> None:
    """Until the scheduler has the request and has sent that many runs."""
    while not stack.scheduler.requests or stack.scheduler.num_sent < num_tokens:
        await asyncio.sleep(0.005)


BODIES: dict[str, dict[str, Any]] = {
    "completions": {"prompt": "hi", "max_tokens": 100},
    "chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 90},
    "responses": {"input": "hi", "max_output_tokens": 90},
}


async def _http_hang_up(
    stack: GatewayStack, num_tokens: int, stream: bool, path: str = "completions"
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.server.http_port)
    body = json.dumps({**BODIES[path], "stream": stream}).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await _reach(stack, num_tokens)
    if stream and num_tokens:
        await reader.readuntil(b"data: ")
    writer.close()
    await writer.wait_closed()


async def _http_stream(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=True)


async def _http_whole(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=False)


async def _chat_stream(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=True, path="chat/completions")


async def _chat_whole(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=False, path="chat/completions")


async def _response_stream(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=True, path="responses")


async def _response_whole(stack: GatewayStack, num_tokens: int) -> None:
    await _http_hang_up(stack, num_tokens, stream=False, path="responses")


async def _grpc_cancel(stack: GatewayStack, num_tokens: int) -> None:
    async with rpc.channel(stack.grpc_target) as channel:
        call = _grpc_call(channel)
        await _reach(stack, num_tokens)
        call.cancel()


async def _grpc_channel_lost(stack: GatewayStack, num_tokens: int) -> None:
    channel = rpc.channel(stack.grpc_target)
    call = _grpc_call(channel)
    await _reach(stack, num_tokens)
    await channel.close(None)
    assert call.done()


def _grpc_call(channel: aio.Channel) -> Any:
    request = pb.GenerateRequest(text="hi")
    request.sampling.max_tokens = 100
    return pb_grpc.InferenceServiceStub(channel).Generate(request)


HANG_UPS = [
    _http_stream,
    _http_whole,
    _chat_stream,
    _chat_whole,
    _response_stream,
    _response_whole,
    _grpc_cancel,
    _grpc_channel_lost,
]


@pytest.mark.parametrize("hang_up", HANG_UPS)
@pytest.mark.parametrize(("script", "num_tokens"), [(QUEUED, 0), (FIRST_TOKEN, 1), (MID_STREAM, 5)])
async def test_hanging_up_cancels_the_scheduler_call(
    stack: GatewayStack, hang_up: HangUp, script: Script, num_tokens: int
) -> None:
    stack.scheduler.script = script
    await hang_up(stack, num_tokens)
    assert await stack.scheduler.wait_cancelled(1.0)
    assert stack.scheduler.finished == []
    sent = stack.scheduler.num_sent
    await asyncio.sleep(0.1)
    assert stack.scheduler.num_sent == sent
    assert stack.server.gateway.lifecycle.num_running == 0
    assert await stack.metric(ABORTED) == 1


async def test_a_hang_up_counts_as_499(stack: GatewayStack) -> None:
    for hang_up, script, num_tokens in ((_http_whole, QUEUED, 0), (_http_stream, MID_STREAM, 3)):
        stack.scheduler.script = script
        stack.scheduler.requests.clear()
        await hang_up(stack, num_tokens)
    gone = 'dspark_gateway_http_responses_total{path="/v1/completions",status="499"'
    for _ in range(100):
        if await stack.metric(gone) == 2:
            break
        await asyncio.sleep(0.01)
    assert await stack.metric(gone) == 2


async def test_others_are_untouched(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("Hello", 1), delay_s=0.05)
    others = [asyncio.create_task(stack.complete()) for _ in range(3)]
    await _http_stream(stack, 2)
    texts = [(await other).json()["choices"][0]["text"] for other in others]
    assert texts == ["Hello"] * 3
    assert await stack.scheduler.wait_cancelled(1.0)
    assert len(stack.scheduler.cancelled) == 1


async def test_a_grpc_deadline_cancels_the_scheduler_call(stack: GatewayStack) -> None:
    stack.scheduler.script = QUEUED
    async with rpc.channel(stack.grpc_target) as channel:
        call = pb_grpc.InferenceServiceStub(channel).Generate(
            pb.GenerateRequest(text="hi"), timeout=0.2
        )
        with pytest.raises(aio.AioRpcError, match="Deadline"):
            async for _ in call:
                pass
    assert await stack.scheduler.wait_cancelled(1.0)


async def test_the_request_timeout_cancels_the_scheduler_call(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, request_timeout_s=0.2) as stack:
        stack.scheduler.script = QUEUED
        response = await stack.complete()
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "deadline_exceeded"
        assert await stack.scheduler.wait_cancelled(1.0)
