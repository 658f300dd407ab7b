"""What clients of a gateway see while the scheduler or the verifier behind it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from dspark import rpc
from dspark.errors import NotReady
from dspark.gateway import resumption, scheduler_monitor, scheduler_pool
from dspark.gateway.config import GatewayConfig
from dspark.gateway.server import GatewayServer
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.byte_tokenizer import write_model_dir
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.fake_verifier import FakeVerifier
from harness.running_scheduler import running_scheduler, until

QUEUED = Script(start_delay_s=60)
BODY = {"prompt": "hi", "max_tokens": 5}


@asynccontextmanager
async def gateway(model_dir: Path, *schedulers: str) -> AsyncIterator[GatewayServer]:
    write_model_dir(model_dir)
    addresses = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}
    config = GatewayConfig(model_dir=str(model_dir), scheduler=schedulers, drain_s=1.0, **addresses)
    server = GatewayServer(config)
    await server.start()
    stopped = asyncio.create_task(server.wait_stopped())
    try:
        yield server
    finally:
        server.stop()
        await stopped


def client_of(server: GatewayServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.http_port}", timeout=30.0)


async def until_ready(client: httpx.AsyncClient, status: int) -> httpx.Response:
    async with asyncio.timeout(20):
        while (response := await client.get("/ready")).status_code != status:
            await asyncio.sleep(0.05)
    return response


async def test_readiness_follows_the_verifier_and_health_does_not(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'verifier'}"
    verifier = await FakeVerifier().start(address)
    async with (
        running_scheduler(address) as scheduler,
        gateway(tmp_path / "model", scheduler.target) as server,
        client_of(server) as client,
    ):
        await until_ready(client, 200)
        await verifier.stop()
        response = await until_ready(client, 503)
        assert "verifier" in response.json()["reason"]
        assert (await client.get("/health")).status_code == 200
        verifier = await FakeVerifier().start(address)
        await until_ready(client, 200)
        answer = await client.post("/v1/completions", json={**BODY, "prompt": [1, 2, 3]})
        assert answer.status_code == 200
    await verifier.stop()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_scheduler_lost_before_the_first_token_is_a_pause(
    tmp_path: Path, stream: bool
) -> None:
    address = f"unix:{tmp_path / 'scheduler'}"
    lost = await FakeScheduler(QUEUED).start(address)
    async with gateway(tmp_path / "model", address) as server, client_of(server) as client:
        await until_ready(client, 200)
        post = client.post("/v1/completions", json={**BODY, "stream": stream})
        answer = asyncio.create_task(post)
        await until(lambda: bool(lost.requests))
        await lost.stop()
        back = await FakeScheduler(Script(runs_of("Hello"))).start(address)
        response = await answer
        assert response.status_code == 200
        assert len(back.requests) == 1
        assert back.requests[0].request_id == lost.requests[0].request_id
        if not stream:
            assert response.json()["choices"][0]["text"] == "Hello"
    await back.stop()


async def test_one_that_stays_away_is_a_503_that_says_when_to_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "FIRST_PATIENCE_S", 0.1)
    address = f"unix:{tmp_path / 'scheduler'}"
    lost = await FakeScheduler(QUEUED).start(address)
    async with gateway(tmp_path / "model", address) as server, client_of(server) as client:
        await until_ready(client, 200)
        answer = asyncio.create_task(client.post("/v1/completions", json={**BODY, "stream": True}))
        await until(lambda: bool(lost.requests))
        await lost.stop()
        response = await answer
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert response.json()["error"]["code"] == "backend_unavailable"


async def test_whoever_hangs_up_in_the_pause_is_not_sent_again(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'scheduler'}"
    lost = await FakeScheduler(QUEUED).start(address)
    async with gateway(tmp_path / "model", address) as server, client_of(server) as client:
        await until_ready(client, 200)
        lifecycle = server.gateway.lifecycle
        async with rpc.channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = pb_grpc.InferenceServiceStub(channel).Generate(pb.GenerateRequest(text="hi"))
            posts = [
                asyncio.create_task(client.post("/v1/completions", json={**BODY, "stream": stream}))
                for stream in (False, True)
            ]
            await until(lambda: len(lost.requests) == 3)
            await lost.stop()
            await asyncio.sleep(0.3)
            assert lifecycle.num_running == 3
            call.cancel()
            for post in posts:
                post.cancel()
            await until(lambda: lifecycle.num_running == 0)
        back = await FakeScheduler().start(address)
        await until_ready(client, 200)
        assert back.requests == []
    await back.stop()


async def test_a_silent_scheduler_s_streams_go_on_at_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped keeps its connections, so that only asking it tells."""
    monkeypatch.setattr(scheduler_pool, "SILENCE_S", 0.2)
    monkeypatch.setattr(scheduler_monitor, "POLL_INTERVAL_S", 0.1)
    silent = await FakeScheduler(Script([[72], [101]], hang=True)).start("127.0.0.1:0")
    other = await FakeScheduler(Script([[108], [108], [111]])).start("127.0.0.1:0")
    async with gateway(tmp_path / "model", silent.target, other.target) as server:
        async with client_of(server) as client:
            await until_ready(client, 200)
            answers = [
                asyncio.create_task(client.post("/v1/completions", json=BODY)) for _ in range(2)
            ]
            await until(lambda: bool(silent.requests) and bool(other.requests))
            silent.info_error = NotReady("silent")
            texts = {(await answer).json()["choices"][0]["text"] for answer in answers}
    assert texts == {"llo", "Hello"}
    assert other.requests[-1].committed_token_ids == [72, 101]
    await silent.stop()
    await other.stop()
