"""A fast verifier alone, then with one at a quarter of its speed: throughput and gaps in streams.

    python tests/bench/unequal_verifiers.py --concurrency 16 --requests 48

Each verifier has one thread on a processor of its own; the slow one rests after each pass. Both
set-ups get the same requests, in turns, and the last line says how they compare. ``--imitated``
puts verifiers without a model in their place, which take as long for a pass as they are told to, so
that a busy machine does not disturb them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dspark.generation import TokenChunk
from dspark.sampling import SamplingParams
from dspark.wire.generation import event_from_proto
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.real_model import default_model_dir
from harness.running_scheduler import RunningScheduler, make_request, running_scheduler
from harness.waiting import until

VOCAB_SIZE = 49_000
# Of imitated verifiers: the fixed part of a pass, and that of each row.
FIXED_MS, ROW_MS = 20.0, 4.0


@dataclass
class Load:
    """What one run of all requests took; times in milliseconds."""

    seconds: float = 0.0
    num_tokens: int = 0
    gaps_ms: list[float] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.seconds

    @property
    def p99_ms(self) -> float:
        return statistics.quantiles(self.gaps_ms, n=100, method="inclusive")[98]

    def __str__(self) -> str:
        longest = max(self.gaps_ms)
        gaps = f"gaps p50 {statistics.median(self.gaps_ms):.0f}, p99 {self.p99_ms:.0f} ms"
        return f"{self.tokens_per_s:.1f} tokens/s, {gaps}, longest {longest:.0f} ms"


@asynccontextmanager
async def verifier(model: Path, socket: Path, core: int, slowness: float) -> AsyncIterator[str]:
    """A verifier process on one processor."""
    address = f"unix:{socket}"
    flags = ["--listen", address, "--threads=1", "--kv-tokens=32768", "--model", str(model)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "harness.throttled_verifier"),
        *flags,
        env={**os.environ, "SLOWNESS": str(slowness), "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.sched_setaffinity(process.pid, {core})
    try:
        yield address
    finally:
        process.kill()
        await process.wait()


async def stream(scheduler: RunningScheduler, index: int, options: argparse.Namespace) -> Load:
    dice = random.Random(index)
    prompt = [dice.randrange(VOCAB_SIZE) for _ in range(dice.randrange(16, options.prompt_tokens))]
    length = dice.randrange(options.max_tokens // 2, options.max_tokens)
    sampling = SamplingParams(temperature=0.8, seed=index, max_tokens=length, ignore_eos=True)
    request = make_request(f"r{index}-{time.monotonic_ns()}", prompt, sampling)
    load, last = Load(), None
    async for message in scheduler.client.stub.Generate(request):
        event, now = event_from_proto(message), time.perf_counter()
        if isinstance(event, TokenChunk):
            load.num_tokens += len(event.token_ids)
            if last is not None:
                load.gaps_ms.append((now - last) * 1e3)
            last = now
    return load


async def run_load(scheduler: RunningScheduler, options: argparse.Namespace) -> Load:
    slots, total = asyncio.Semaphore(options.concurrency), Load()

    async def limited(index: int) -> None:
        async with slots:
            one = await stream(scheduler, index, options)
        total.num_tokens += one.num_tokens
        total.gaps_ms += one.gaps_ms

    started = time.perf_counter()
    await asyncio.gather(*map(limited, range(options.requests)))
    total.seconds = time.perf_counter() - started
    return total


async def measure(targets: list[str], options: argparse.Namespace) -> Load:
    """One run on a scheduler of its own."""
    async with running_scheduler(targets, policy="off", max_num_seqs=64) as scheduler:
        pool = scheduler.server.scheduler.pool
        await until(lambda: all(worker.is_serving for worker in pool.workers), timeout_s=60)
        load = await run_load(scheduler, options)
        moves = dict(scheduler.server.scheduler.books.moves)
        steps = {worker.name[-8:]: worker.steps.num_steps for worker in pool.workers}
        named = {f"{reason.value} by {way.value}": count for (reason, way), count in moves.items()}
        print(f"{len(targets)} verifiers: {load}; steps {steps}, moves {named}", flush=True)
    return load


def imitated(slowness: float) -> FakeVerifier:
    """A verifier that only takes its time."""

    def forward_s(rows: int) -> float:
        return slowness * (FIXED_MS + ROW_MS * rows) / 1e3

    costs = tuple((rows, forward_s(rows) * 1e3) for rows in (1, 64, 512))
    return FakeVerifier(
        HashModel(VOCAB_SIZE, max_model_len=2048),
        block_size=16,
        num_blocks=2048,
        costs=costs,
        forward_s=forward_s,
    )


@asynccontextmanager
async def two_verifiers(options: argparse.Namespace) -> AsyncIterator[tuple[str, str]]:
    """The addresses of the fast and of the slow one."""
    async with AsyncExitStack() as stack:
        if options.imitated:
            fast = await stack.enter_async_context(imitated(1.0))
            slow = await stack.enter_async_context(imitated(options.slowness))
            yield fast.target, slow.target
            return
        model, cores = default_model_dir(), sorted(os.sched_getaffinity(0))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield (
            await stack.enter_async_context(verifier(model, folder / "fast.s", cores[0], 1.0)),
            await stack.enter_async_context(
                verifier(model, folder / "slow.s", cores[-1], options.slowness)
            ),
        )


async def run(options: argparse.Namespace) -> None:
    alone, both = [], []
    async with two_verifiers(options) as (fast, slow):
        async with running_scheduler([fast, slow], policy="off", wait_ready=False) as waiting:
            pool = waiting.server.scheduler.pool
            await until(lambda: sum(w.is_serving for w in pool.workers) == 2, timeout_s=300)
        for _ in range(options.rounds):
            alone.append(await measure([fast], options))
            both.append(await measure([fast, slow], options))
    gain = statistics.median(b.tokens_per_s for b in both) / statistics.median(
        a.tokens_per_s for a in alone
    )
    p99 = statistics.median(b.p99_ms for b in both) / statistics.median(a.p99_ms for a in alone)
    print(f"both against the fast one alone: {gain:.2f}x tokens/s, {p99:.2f}x p99 of gaps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--prompt-tokens", type=int, default=96)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--slowness", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--imitated", action="store_true", help="verifiers without a model")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
