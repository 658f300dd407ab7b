"""Services show their metrics on --metrics-port, also while they start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import urllib.request
from pathlib import Path

from dspark import rpc
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import serving
from harness.verifier_service import fake_config, fake_loader

CANDIDATES = "dspark.v1.CandidatesService"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


async def test_a_verifier_shows_metrics_while_its_model_loads() -> None:
    may_load, port = threading.Event(), free_port()

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        assert may_load.wait(30)
        return fake_loader()(config, progress)

    async def show() -> str:
        return await asyncio.to_thread(read, port)

    async def serve(ready: asyncio.Event, end: asyncio.Event) -> None:
        async with serving(fake_config(metrics_port=port), load):
            ready.set()
            await end.wait()

    ready, end = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(serve(ready, end))
    try:
        await asyncio.sleep(0.1)
        text = await show()
        assert "dspark_verifier_ready 0.0" in text and "dspark_verifier_kv_blocks" not in text
        may_load.set()
        await ready.wait()
        text = await show()
        assert "dspark_verifier_ready 1.0" in text
        assert 'dspark_verifier_kv_blocks{state="free"} 256.0' in text
        assert "dspark_build_info{" in text and 'service="verifier"' in text
    finally:
        may_load.set()
        end.set()
        await task


async def test_a_candidates_process_shows_metrics_until_it_ends(tmp_path: Path) -> None:
    address, port = f"unix:{tmp_path}/candidates.sock", free_port()
    flags = ["--listen", address, "--metrics-port", str(port)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dspark.candidates", *flags, env={**os.environ}
    )
    try:
        async with rpc.channel(address) as channel:
            for _ in range(300):
                if await rpc.is_ready(channel, CANDIDATES):
                    break
                await asyncio.sleep(0.1)
        text = await asyncio.to_thread(read, port)
        for source in ("recycle", "suffix", "retrieval"):
            assert f'dspark_candidates_source_muted{{source="{source}"}} 0.0' in text
        assert "process_resident_memory_bytes" in text
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15.0) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
