"""What passes ahead of their step give where the model leaves the processors to the services.

    python tests/bench/compute_ahead.py --forward-ms 8 --concurrency 1,8 --repeats 5

Two verifiers, each with a scheduler, are processes of their own and differ in ``--compute-ahead``;
their model sleeps for a forward pass, as the host does while a device computes. Runs take turns.
Prints tokens a second of both and the median ratio; the tokens of both must be equal.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dspark.sampling import SamplingParams
from dspark.step import VerifyCost
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch, IntArray
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import serve
from harness.running_scheduler import SchedulerClient, make_request

VOCAB_SIZE = 49_152
TOKENS = 128
SETTINGS = ("off", "on")


class SleepingModel:
    """Its next token is a hash of the last one and its position; it keeps no K/V."""

    vocab_size = VOCAB_SIZE
    max_model_len = 4096
    eos_token_ids: frozenset[int] = frozenset()

    def __init__(self, forward_s: float) -> None:
        self._forward_s = forward_s
        self._logits = np.zeros((512, VOCAB_SIZE), dtype=np.float32)

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        time.sleep(self._forward_s)
        rows = batch.logits_rows
        logits = self._logits[: len(rows)]
        logits[:] = 0
        following = (batch.token_ids[rows] * 31 + batch.positions[rows] * 7 + 11) % VOCAB_SIZE
        logits[np.arange(len(rows)), following] = 30.0
        return logits

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """There is no K/V to move."""


def verify(listen: str, compute_ahead: str, forward_ms: float) -> None:
    """Serve the model until killed."""

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        model = SleepingModel(forward_ms / 1e3)
        costs = (VerifyCost(1, forward_ms), VerifyCost(64, forward_ms))
        return LoadedModel(model, model, "sleep", "sleep", "strict", "none", "none", 512, costs)  # type: ignore[arg-type]

    config = VerifierConfig("sleep", listen, compute_ahead=compute_ahead)
    asyncio.run(serve(config, load, lambda line: None, asyncio.Event()))


@asynccontextmanager
async def scheduler(compute_ahead: str, forward_ms: float, folder: Path) -> AsyncIterator[str]:
    """A verifier and its scheduler as processes; yields the scheduler's address."""
    to_verifier, address = (f"unix:{folder}/{name}-{compute_ahead}" for name in "vs")
    commands = (
        [__file__, "--verify", to_verifier, compute_ahead, str(forward_ms)],
        ["-m", "dspark.scheduler", "--listen", address, "--verifier", to_verifier],
    )
    processes = [subprocess.Popen([sys.executable, *command]) for command in commands]
    try:
        yield address
    finally:
        for process in processes:
            process.terminate()
            process.wait()


async def run(client: SchedulerClient, name: str, concurrency: int) -> tuple[float, list[int]]:
    """Tokens a second of so many requests at once, and their tokens."""
    sampling = SamplingParams(temperature=0.0, max_tokens=TOKENS)
    started = time.perf_counter()
    streams = await asyncio.gather(
        *(
            client.generate(make_request(f"{name}-{i}", range(1 + i, 40 + i), sampling))
            for i in range(concurrency)
        )
    )
    tokens = [token for stream in streams for token in stream.token_ids]
    return len(tokens) / (time.perf_counter() - started), tokens


async def compare(options: argparse.Namespace, off: str, on: str) -> None:
    clients = {
        setting: SchedulerClient(at) for setting, at in zip(SETTINGS, (off, on), strict=True)
    }
    for client in clients.values():
        while not await client.is_ready():
            await asyncio.sleep(0.1)
    for concurrency in map(int, options.concurrency.split(",")):
        rates: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for repeat in range(options.repeats):
            seen = []
            for setting in SETTINGS if repeat % 2 else SETTINGS[::-1]:
                rate, tokens = await run(clients[setting], f"{concurrency}-{repeat}", concurrency)
                rates[setting].append(rate)
                seen.append(tokens)
            assert seen[0] == seen[1], "the tokens differ"
        ratio = median(on / off for off, on in zip(rates["off"], rates["on"], strict=True))
        figures = ", ".join(f"{setting} {median(rates[setting]):.1f}" for setting in SETTINGS)
        print(f"{concurrency} in flight: tokens/s {figures}; median ratio {ratio:.2f}")
    for client in clients.values():
        await client.channel.close()


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            scheduler("off", options.forward_ms, Path(folder)) as off,
            scheduler("on", options.forward_ms, Path(folder)) as on,
        ):
            await compare(options, off, on)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward-ms", type=float, default=8.0)
    parser.add_argument("--concurrency", default="1,8")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--verify", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.verify:
        verify(given.verify[0], given.verify[1], float(given.verify[2]))
    else:
        asyncio.run(main(given))
