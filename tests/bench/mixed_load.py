"""Many requests that end in every way, against services of their own; then what is left of them.

    python tests/bench/mixed_load.py --requests 1000 --concurrency 16

Requests finish by length or end token, stop at a string, are cancelled by their client, or are
refused. Prints how they ended, the resident memory of each service after a first part of them and
after all, and the KV blocks that are still in use; exits with 1 if any is.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import random
import sys
from pathlib import Path

from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient
from dspark.errors import DSparkError
from dspark.rpc import channel
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc

WORDS = "river stone light paper cloud green seven music table never always winter".split()
SERVICES = ("gateway", "scheduler", "candidates", "verifier")


async def one_request(client: AsyncClient, index: int) -> str:
    """Run a request whose kind its number decides; says how it ended."""
    dice = random.Random(index)
    prompt = " ".join(dice.choice(WORDS) for _ in range(dice.randrange(2, 40)))
    kind = dice.choice(("whole", "whole", "stop", "cancel", "refused"))
    options = {"max_tokens": dice.randrange(1, 20), "temperature": dice.choice((0.0, 0.9))}
    try:
        if kind == "refused":
            await client.generate(prompt, max_tokens=10**6)
        elif kind == "cancel":
            async with client.stream(prompt, max_tokens=200, seed=index) as stream:
                async for _ in stream:
                    return kind
        else:
            stop = [" ", "e"] if kind == "stop" else None
            done = await client.generate(prompt, stop=stop, seed=index, **options)
            return str(done.finish_reason)
    except DSparkError as error:
        return error.reason
    return kind


def resident_mb() -> dict[str, int]:
    """Resident memory of this process's services, in MiB."""
    sizes = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes().decode().split("\0")
            lines = status.read_text().splitlines()
        except OSError:
            continue
        names = [name for name in SERVICES if f"dspark.{name}" in command]
        if names:
            sizes[names[0]] = next(int(x.split()[1]) // 1024 for x in lines if "VmRSS" in x)
    return sizes


async def blocks_in_use(scheduler: str) -> int:
    """KV blocks that no allocation could get now, once the last cancellations are through."""
    async with channel(scheduler) as link:
        stub = pb_grpc.SchedulerServiceStub(link)
        for _ in range(50):
            status = await stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest())
            if status.num_free_blocks == status.num_blocks:
                break
            await asyncio.sleep(0.1)
    return int(status.num_blocks - status.num_free_blocks)


async def run(options: argparse.Namespace) -> int:
    config = ServicesConfig(model=options.model)
    async with embedded_services(config, Progress()) as address:
        scheduler = f"unix:{Path(address.removeprefix('unix:')).parent}/scheduler.sock"
        slots = asyncio.Semaphore(options.concurrency)
        ends: collections.Counter[str] = collections.Counter()

        async with AsyncClient(address) as client:

            async def limited(index: int) -> None:
                async with slots:
                    ends[await one_request(client, index)] += 1

            first = options.requests // 5
            await asyncio.gather(*map(limited, range(first)))
            early = resident_mb()
            await asyncio.gather(*map(limited, range(first, options.requests)))
        late, left = resident_mb(), await blocks_in_use(scheduler)
    print(f"{sum(ends.values())} requests ended: {dict(ends)}")
    for name in SERVICES:
        print(f"{name}: {early[name]} MiB after {first}, {late[name]} MiB after all")
    print(f"KV blocks in use: {left}")
    return 1 if left else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=16)
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
