"""A draft model in a process of its own: killed or stopped mid-stream it costs speed alone."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from dspark import rpc
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.server import serving
from harness.running_scheduler import SchedulerClient, Streamed, make_request, running_scheduler
from harness.tiny_drafts import save_draft
from harness.tiny_models import save_tiny_model
from harness.waiting import until

VOCAB_SIZE = 97
MAX_TOKENS = 160
SERVICE = "dspark.v1.CandidatesService"
OFF = SpeculationParams(enabled=False)
SAMPLINGS = [
    SamplingParams(temperature, seed=seed, max_tokens=MAX_TOKENS, ignore_eos=True)
    for seed, temperature in enumerate((0.0, 0.7, 1.3))
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("target"), VOCAB_SIZE)


@pytest.fixture(scope="module")
def draft(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_draft(target, tmp_path_factory.mktemp("draft"), "llama", VOCAB_SIZE, 0)


@contextmanager
def drafting(address: str, target: Path, draft: Path) -> Iterator[subprocess.Popen[bytes]]:
    settings = {
        "listen": address,
        "model": target,
        "draft-model": draft,
        "sources": "draft",
        "propose-deadline-ms": 1500.0,
    }
    flags = [f"--{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen([sys.executable, "-m", "dspark.candidates", *flags])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


async def until_ready(address: str) -> None:
    async with rpc.channel(address) as channel:
        async with asyncio.timeout(120):
            while not await rpc.is_ready(channel, SERVICE):
                await asyncio.sleep(0.1)


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@asynccontextmanager
async def stack_of(target: Path, candidates: str) -> AsyncIterator[SchedulerClient]:
    config = VerifierConfig(str(target), "127.0.0.1:0", kv_tokens=4096, block_size=8)
    async with (
        serving(config, load) as verifier,
        running_scheduler(
            f"127.0.0.1:{verifier.port}", candidates, propose_deadline_ms=1500.0
        ) as scheduler,
    ):
        yield scheduler.client


async def run(
    client: SchedulerClient, name: str, speculation: SpeculationParams | None = None
) -> list[Streamed]:
    requests = (
        make_request(f"{name}{index}", [3, 1, 4, 1, 5, index], sampling, speculation)
        for index, sampling in enumerate(SAMPLINGS)
    )
    return await asyncio.gather(*map(client.generate, requests))


def token_ids(streams: Sequence[Streamed]) -> list[list[int]]:
    return [streamed.token_ids for streamed in streams]


def num_accepted(streams: Sequence[Streamed]) -> int:
    return sum(streamed.speculation.accepted for streamed in streams)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_drafter_that_stops_mid_stream_costs_speed_alone(
    target: Path, draft: Path, tmp_path: Path, fault: signal.Signals
) -> None:
    address = f"unix:{tmp_path}/candidates.sock"
    with drafting(address, target, draft) as process:
        await until_ready(address)
        async with stack_of(target, address) as client:
            plain = await run(client, "plain", OFF)
            undisturbed = await run(client, "undisturbed")
            assert token_ids(undisturbed) == token_ids(plain)
            assert num_accepted(undisturbed) > MAX_TOKENS

            before = (await client.status()).generation_tokens
            disturbed = asyncio.create_task(run(client, "disturbed"))
            await until(lambda: _generated(client, before + MAX_TOKENS // 4))
            process.send_signal(fault)
            streams = await asyncio.wait_for(disturbed, 120)
            assert token_ids(streams) == token_ids(plain)
            assert num_accepted(streams) < num_accepted(undisturbed)
            assert token_ids(await run(client, "alone")) == token_ids(plain)


async def _generated(client: SchedulerClient, num_tokens: int) -> bool:
    return (await client.status()).generation_tokens >= num_tokens


def test_a_drafter_of_another_size_is_refused_at_the_start(target: Path, tmp_path: Path) -> None:
    larger = save_draft(target, tmp_path, "llama", VOCAB_SIZE + 3, 0)
    settings = CandidatesConfig(sources=("draft",), model=str(target), draft_model=str(larger))
    with pytest.raises(ValueError, match="100 token ids, and the target 97"):
        build_sources(settings)
