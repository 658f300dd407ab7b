"""The gateway as a process: addresses, readiness, signals, drain."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from dspark import rpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.byte_tokenizer import write_model_dir
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import gateway_stack, sse_events

SLOW = Script(runs_of("Hello"), delay_s=0.1)
ENDLESS = Script(runs_of("ab"), repeat=True, delay_s=0.05)


async def _start(model_dir: Path, *flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "dspark.gateway", "--model-dir", str(model_dir), "--served-model-name", "m"),
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )


async def _wait_ready(client: httpx.AsyncClient) -> None:
    for _ in range(200):
        try:
            if (await client.get("/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise AssertionError("the gateway did not become ready")


async def test_on_unix_sockets_it_serves_both_fronts_and_drains_on_sigterm(tmp_path: Path) -> None:
    http, grpc, scheduler = (tmp_path / name for name in ("h", "g", "s"))
    write_model_dir(tmp_path / "model")
    fake = await FakeScheduler(SLOW).start(f"unix:{scheduler}")
    process = await _start(
        tmp_path / "model",
        *("--scheduler", f"unix:{scheduler}", "--http", f"unix:{http}", "--grpc", f"unix:{grpc}"),
    )
    try:
        transport = httpx.AsyncHTTPTransport(uds=str(http))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            await _wait_ready(client)
            card = (await client.get("/v1/models")).json()["data"][0]
            assert card["dspark"]["grpc_port"] is None
            async with rpc.channel(f"unix:{grpc}") as channel:
                call = pb_grpc.InferenceServiceStub(channel).Generate(pb.GenerateRequest(text="x"))
                post = asyncio.create_task(client.post("/v1/completions", json={"prompt": "x"}))
                while len(fake.requests) < 2:
                    await asyncio.sleep(0.01)
                process.send_signal(signal.SIGTERM)
                assert "".join([event.chunk.text async for event in call]) == "Hello"
                assert (await post).json()["choices"][0]["text"] == "Hello"
        assert await asyncio.wait_for(process.wait(), 10) == 0
        assert not http.exists()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        await fake.stop()


@pytest.mark.parametrize("front", ["--http", "--grpc"])
async def test_a_taken_port_is_one_clear_line_and_exit_code_2(tmp_path: Path, front: str) -> None:
    write_model_dir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        free = "--grpc" if front == "--http" else "--http"
        process = await _start(tmp_path, front, address, free, "127.0.0.1:0")
        _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 2
    last = errors.decode().strip().splitlines()[-1]
    assert last.startswith("gateway: cannot listen on")
    assert address in last
    assert "Traceback" not in errors.decode()


async def test_a_missing_model_is_one_clear_line_and_exit_code_2(tmp_path: Path) -> None:
    process = await _start(tmp_path / "nothing")
    _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 2
    assert "tokenizer.json does not exist" in errors.decode().strip().splitlines()[-1]


async def test_while_draining_it_is_not_ready_and_refuses_new_requests(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, FakeScheduler(SLOW)) as stack:
        running = asyncio.create_task(stack.complete())
        while not stack.scheduler.requests:
            await asyncio.sleep(0.01)
        stack.server.stop()
        await asyncio.sleep(0.05)
        ready = await stack.client.get("/ready")
        assert (ready.status_code, ready.json()["reason"]) == (503, "draining")
        assert (await stack.client.get("/health")).status_code == 200
        refused = await stack.complete()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert (await running).json()["choices"][0]["text"] == "Hello"


async def test_what_outlasts_the_drain_ends_with_an_error(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, FakeScheduler(ENDLESS), drain_s=0.2) as stack:
        streamed = asyncio.create_task(stack.complete(stream=True, max_tokens=100))
        whole = asyncio.create_task(stack.complete(max_tokens=100))
        while stack.scheduler.num_sent < 4:
            await asyncio.sleep(0.01)
        stack.server.stop()
        *_, error, last = sse_events((await streamed).text)
        assert (error["error"]["code"], last) == ("draining", "[DONE]")
        assert (await whole).status_code == 503
        assert await stack.scheduler.wait_cancelled(count=2)
