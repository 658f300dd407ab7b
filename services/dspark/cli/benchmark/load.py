"""Runs the load: a fixed number of requests in flight."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from dspark.cli.benchmark.aggregate import Run
from dspark.cli.benchmark.plan import BenchRequest
from dspark.client import AsyncClient, Completion


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What all requests of a benchmark have in common."""

    max_tokens: int
    temperature: float
    use_prefix_cache: bool


async def run_load(
    client: AsyncClient,
    requests: Sequence[BenchRequest],
    settings: LoadSettings,
    *,
    speculation: bool,
    concurrency: int,
) -> Run:
    """Send all requests, ``concurrency`` at a time, and wait for them."""
    completions: list[Completion | None] = [None] * len(requests)
    salt = uuid.uuid4().hex
    waiting = iter(enumerate(requests))

    async def worker() -> None:
        for index, request in waiting:
            completions[index] = await client.generate(
                request.prompt.prompt,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                seed=request.seed,
                speculation=speculation,
                use_prefix_cache=settings.use_prefix_cache,
                cache_salt=f"bench-{salt}-{request.lap}",
            )

    start = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(requests))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    wall_s = time.perf_counter() - start
    done = tuple(completion for completion in completions if completion is not None)
    return Run(speculation, concurrency, done, wall_s)
