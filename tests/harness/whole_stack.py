"""Verifier, candidates and scheduler in one process, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.server import CandidatesServer
from dspark.candidates.sources.interface import CandidateSource
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.server import Load, serving
from harness.running_scheduler import (
    RunningScheduler,
    SchedulerClient,
    Streamed,
    make_request,
    running_scheduler,
)

OFF = SpeculationParams(enabled=False)
ON = SpeculationParams()


@dataclass(frozen=True)
class Job:
    """One request of a test."""

    prompt: tuple[int, ...]
    sampling: SamplingParams


@dataclass
class WholeStack:
    """A running stack; ``engine`` and ``proposer`` are open to inspection."""

    client: SchedulerClient
    engine: Engine
    proposer: Proposer
    scheduler: RunningScheduler
    verifier_metrics: CollectorRegistry
    num_requests: int = 0

    async def run(
        self, job: Job, speculation: SpeculationParams = ON, *, use_prefix_cache: bool = False
    ) -> Streamed:
        self.num_requests += 1
        request = make_request(
            f"r{self.num_requests}",
            job.prompt,
            job.sampling,
            speculation,
            use_prefix_cache=use_prefix_cache,
        )
        return await self.client.generate(request)

    async def run_alone(self, jobs: Sequence[Job]) -> list[Streamed]:
        """Plain decoding, one request at a time: what every other way must equal."""
        return [await self.run(job, OFF) for job in jobs]

    async def run_together(
        self,
        jobs: Sequence[Job],
        speculation: SpeculationParams = ON,
        *,
        use_prefix_cache: bool = False,
    ) -> list[Streamed]:
        return await asyncio.gather(
            *(self.run(job, speculation, use_prefix_cache=use_prefix_cache) for job in jobs)
        )

    async def check_idle(self) -> None:
        """No request is live, so no block may be in use (H8)."""
        async with asyncio.timeout(5):
            while (await self.client.status()).num_free_blocks != self.engine.pool.num_blocks:
                await asyncio.sleep(0.02)
        self.engine.check()
        assert self.engine.pool.num_available == self.engine.pool.num_blocks


@asynccontextmanager
async def whole_stack(
    load: Load,
    verifier_config: VerifierConfig,
    sources: Sequence[CandidateSource],
    **scheduler_settings: object,
) -> AsyncIterator[WholeStack]:
    """Everything but the gateway, on free ports of the loopback address."""
    candidates_config = CandidatesConfig(listen="127.0.0.1:0", propose_deadline_ms=1500.0)
    proposer = Proposer(sources, candidates_config)
    candidates = CandidatesServer(proposer, candidates_config)
    port = await candidates.start()
    try:
        async with (
            serving(verifier_config, load) as verifier,
            running_scheduler(
                f"127.0.0.1:{verifier.port}", f"127.0.0.1:{port}", **scheduler_settings
            ) as scheduler,
        ):
            yield WholeStack(
                scheduler.client, verifier.engine, proposer, scheduler, verifier.metrics
            )
    finally:
        await candidates.stop()
