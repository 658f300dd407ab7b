"""What short requests feel of a long one, and what a tenant feels of another that floods.

    python tests/bench/fairness.py --requests 50 --rate 2 --flood 32

Runs on services of its own. Short requests come at random times, the same in each run: alone, with
a request of a 4,000-token prompt, with one of a 4,000-token output. Then a calm user sends one
request after the other, alone and beside a user who keeps many in flight. Prints the P50 and P99
of the time to the first token, and the ratios of the P99 to those alone; exits with 1 if one is
above its bar.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient

LONG = 4000
LONG_BAR, FLOOD_BAR = 1.5, 2.0
CALM_GAP_S = 1.5
FIRST_ID, LAST_ID = 1000, 20_000


@dataclass(frozen=True)
class Shape:
    """Tokens of a request."""

    num_prompt: int
    num_output: int


async def first_token_s(client: AsyncClient, shape: Shape, seed: int, user: str = "") -> float:
    """Run a request to its end; seconds from its start to its first token."""
    dice = random.Random(seed)
    prompt = [dice.randrange(FIRST_ID, LAST_ID) for _ in range(shape.num_prompt)]
    started = time.perf_counter()
    first = math.inf
    async with client.stream(
        prompt,
        max_tokens=shape.num_output,
        ignore_eos=True,
        use_prefix_cache=False,
        seed=seed,
        user=user,
    ) as stream:
        async for _ in stream:
            first = min(first, time.perf_counter() - started)
    return first


async def short_ones(client: AsyncClient, options: argparse.Namespace) -> list[float]:
    dice = random.Random(options.seed)
    tasks = []
    for index in range(options.requests):
        await asyncio.sleep(dice.expovariate(options.rate))
        shape = Shape(dice.randrange(30, 120), dice.randrange(10, 40))
        tasks.append(asyncio.create_task(first_token_s(client, shape, index)))
    return await asyncio.gather(*tasks)


async def beside_long(
    client: AsyncClient, options: argparse.Namespace, shape: Shape
) -> list[float]:
    """Of short requests, while a long one runs from the start; it is cancelled after them."""
    long = asyncio.create_task(first_token_s(client, shape, 10_000))
    try:
        return await short_ones(client, options)
    finally:
        await ended(long)


async def calm_ones(client: AsyncClient, options: argparse.Namespace) -> list[float]:
    times = []
    for index in range(options.calm):
        times.append(await first_token_s(client, Shape(200, 16), 20_000 + index, "calm"))
        await asyncio.sleep(CALM_GAP_S)
    return times


async def beside_flood(client: AsyncClient, options: argparse.Namespace) -> list[float]:
    async def send(number: int) -> None:
        for index in range(1_000_000):
            await first_token_s(client, Shape(100, 100), 1000 * number + index, "flood")

    flood = [asyncio.create_task(send(number)) for number in range(options.flood)]
    await asyncio.sleep(2 * CALM_GAP_S)
    try:
        return await calm_ones(client, options)
    finally:
        for task in flood:
            await ended(task)


async def ended(task: asyncio.Task[object]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def report(name: str, times: Sequence[float], alone: Sequence[float], bar: float) -> bool:
    """Print one line; whether the bar is held."""
    p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
    ratio = p99 / quantile(alone, 0.99)
    print(f"{name:32} p50 {p50 * 1e3:7.0f} ms  p99 {p99 * 1e3:7.0f} ms  {ratio:5.2f} of {bar}")
    return ratio <= bar


async def run(options: argparse.Namespace) -> int:
    config = ServicesConfig(model=options.model, max_num_seqs=options.max_num_seqs)
    async with embedded_services(config, Progress()) as address:
        async with AsyncClient(address) as client:
            await first_token_s(client, Shape(100, 20), 0)
            alone = await short_ones(client, options)
            beside_prompt = await beside_long(client, options, Shape(LONG, 20))
            beside_output = await beside_long(client, options, Shape(50, LONG))
            idle = await calm_ones(client, options)
            flooded = await beside_flood(client, options)
    held = [
        report("short requests alone", alone, alone, LONG_BAR),
        report(f"beside a prompt of {LONG}", beside_prompt, alone, LONG_BAR),
        report(f"beside an output of {LONG}", beside_output, alone, LONG_BAR),
        report("a calm user alone", idle, idle, FLOOD_BAR),
        report(f"beside {options.flood} in flight", flooded, idle, FLOOD_BAR),
    ]
    return 0 if all(held) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--requests", type=int, default=50, help="short requests of each run")
    parser.add_argument("--rate", type=float, default=2.0, help="short requests a second")
    parser.add_argument("--calm", type=int, default=50, help="requests of the calm user")
    parser.add_argument("--flood", type=int, default=32, help="requests in flight of the other")
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
