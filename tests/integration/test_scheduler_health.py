"""Health is progress; shutting down lets requests end; metrics count."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from dspark import rpc
from dspark.errors import Draining
from dspark.sampling import SamplingParams
from harness.fake_verifier import FakeVerifier
from harness.running_scheduler import SchedulerClient, make_request, running_scheduler
from harness.waiting import until

PARAMS = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)


async def until_ready(client: SchedulerClient, ready: bool, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while await client.is_ready() is not ready:
            await asyncio.sleep(0.02)


async def test_a_verifier_that_does_not_finish_a_step_makes_the_scheduler_unready() -> None:
    async with FakeVerifier() as verifier:
        async with running_scheduler(verifier.target, stall_s=0.3) as scheduler:
            await until_ready(scheduler.client, True)
            verifier.hold = asyncio.Event()
            task = asyncio.create_task(scheduler.client.generate(make_request("r", (1, 2), PARAMS)))
            await until_ready(scheduler.client, False)
            assert await rpc.is_ready(scheduler.client.channel, ""), "the process is alive"
            verifier.hold.set()
            assert len((await task).token_ids) == 20
            await until_ready(scheduler.client, True)


async def test_an_idle_scheduler_notices_that_its_verifier_is_gone() -> None:
    verifier = await FakeVerifier().start()
    async with running_scheduler(verifier.target) as scheduler:
        await until_ready(scheduler.client, True)
        await verifier.stop()
        await until_ready(scheduler.client, False)


async def test_draining_lets_running_requests_end_and_refuses_new_ones() -> None:
    async with FakeVerifier(forward_s=lambda rows: 0.01) as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            running = asyncio.create_task(
                scheduler.client.generate(make_request("r", (1, 2), PARAMS))
            )
            await until(lambda: bool(verifier.plans))
            stopping = asyncio.create_task(scheduler.server.scheduler.drain(10.0))
            await asyncio.sleep(0.02)
            with pytest.raises(Draining):
                await scheduler.client.generate(make_request("late", (1, 2), PARAMS))
            assert len((await running).token_ids) == 20
            await stopping
            assert not scheduler.server.scheduler.is_healthy
    assert verifier.sequences == {}


async def test_requests_that_outlast_the_drain_end_with_an_error() -> None:
    async with FakeVerifier(forward_s=lambda rows: 0.05) as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            running = asyncio.create_task(
                scheduler.client.generate(make_request("r", (1, 2), PARAMS))
            )
            await until(lambda: len(verifier.plans) > 2)
            await scheduler.server.stop(drain_s=0.2)
            with pytest.raises(Draining):
                await running
    assert verifier.sequences == {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_the_process_serves_metrics_and_drains_on_sigterm(tmp_path: Path) -> None:
    address, port = f"unix:{tmp_path}/scheduler.sock", free_port()
    async with FakeVerifier(forward_s=lambda rows: 0.01) as verifier:
        flags = ["--listen", address, "--verifier", verifier.target, "--metrics-port", str(port)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dspark.scheduler", *flags, env={**os.environ}
        )
        client = SchedulerClient(address)
        try:
            await until_ready(client, True, timeout_s=30.0)
            await client.generate(make_request("first", (1, 2), PARAMS))
            text = await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/metrics")
            assert "dspark_scheduler_generation_tokens_total 20.0" in text
            assert 'dspark_scheduler_requests_total{finished_reason="length"} 1.0' in text
            running = asyncio.create_task(client.generate(make_request("r", (1, 2), PARAMS)))
            await until(lambda: len(verifier.plans) > 25)
            process.send_signal(signal.SIGUSR1)
            process.send_signal(signal.SIGTERM)
            assert len((await running).token_ids) == 20
            assert await asyncio.wait_for(process.wait(), 10.0) == 0
        finally:
            await client.channel.close()
            if process.returncode is None:
                process.kill()
                await process.wait()


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        return str(response.read().decode())
