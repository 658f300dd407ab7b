"""``python -m dspark.verifier`` as a process: progress, readiness, refusal, signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dspark import rpc
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.server import SERVICE_NAME
from harness.repository import ROOT
from harness.tiny_models import save_tiny_model

pytestmark = pytest.mark.e2e


@asynccontextmanager
async def process(*arguments: str, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A verifier process, killed at the end if it is still there."""
    path = os.pathsep.join(str(ROOT / part) for part in ("shared", "services"))
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dspark.verifier",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, **variables},
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def lines_until(running: asyncio.subprocess.Process, wanted: str) -> list[str]:
    """Lines of stderr up to the first that contains ``wanted``."""
    assert running.stderr is not None
    lines: list[str] = []
    async with asyncio.timeout(120):
        while line := (await running.stderr.readline()).decode():
            lines.append(line.rstrip())
            if wanted in line:
                return lines
    raise AssertionError(f"the process ended without {wanted!r}: {lines}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serves_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    model = save_tiny_model("llama", tmp_path / "tiny-llama")
    address = f"unix:{tmp_path}/v.sock"
    async with process(
        "--model", str(model), "--kv-tokens=1024", "--block-size=8", DSPARK_LISTEN=address
    ) as running:
        lines = await lines_until(running, "progress: serving")
        assert lines[-1] == f"progress: serving tiny-llama on {address}"
        assert "progress: testing row invariance" in lines
        async with rpc.channel(address) as channel:
            assert await rpc.is_ready(channel, SERVICE_NAME)
            stub = pb_grpc.VerifierServiceStub(channel)
            info = await stub.GetVerifierInfo(pb.GetVerifierInfoRequest())
            assert (info.num_blocks, info.block_size) == (128, 8)
            points = [(cost.context, cost.rows) for cost in info.verify_costs]
            assert points == sorted(set(points))
        running.send_signal(number)
        assert await asyncio.wait_for(running.wait(), 20) == 0


async def test_a_refused_model_ends_with_one_line(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/v.sock"
    missing = tmp_path / "nothing-here"
    async with process("--model", str(missing), "--listen", address) as running:
        lines = await lines_until(running, "error: ")
        assert lines[-1].startswith(f"error: {missing}: ")
        assert await asyncio.wait_for(running.wait(), 20) == 2


async def test_a_bad_setting_ends_before_anything_starts(tmp_path: Path) -> None:
    async with process("--model", "m", DSPARK_BLOCK_SIZE="many") as running:
        await lines_until(running, "DSPARK_BLOCK_SIZE")
        assert await asyncio.wait_for(running.wait(), 20) != 0
