"""The four services and a Redis as real processes that are kept running, with edges in between."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import redis.asyncio

from dspark import rpc
from dspark.scheduler.verifier_client import VerifierClient
from dspark.step import StepPlan
from harness.chaos.edge import Edge
from harness.chaos.kept_process import KeptProcess
from harness.chaos.plan import FleetPlan
from harness.running_scheduler import SchedulerClient
from harness.waiting import until

_HEALTH_NAMES = {
    "gateway": "InferenceService",
    "scheduler": "SchedulerService",
    "candidates": "CandidatesService",
    "verifier": "VerifierService",
}


class Fleet:
    """Running services; ``downs`` has the times at which a gateway was taken from its clients."""

    def __init__(self, plan: FleetPlan) -> None:
        self.plan = plan
        self.edges = {
            f"{caller}-{name}": Edge(
                f"{caller}-{name}", plan.edge_socket(caller, name), plan.socket(name)
            )
            for caller, name in plan.edges
        }
        names = [*plan.verifiers, "candidates", *plan.schedulers, *plan.gateways]
        self.processes = {
            "redis": KeptProcess(
                "redis", plan.redis_command(), plan.folder / "redis.log", self._redis_answers
            )
        } | {
            name: KeptProcess(
                name, plan.command(name), plan.folder / f"{name}.log", self._health_of(name)
            )
            for name in names
        }
        self.downs: list[float] = []

    async def start(self) -> None:
        for edge in self.edges.values():
            await edge.start()
        await asyncio.gather(*(process.start() for process in self.processes.values()))
        await self.wait_ready()

    async def wait_ready(self) -> None:
        await asyncio.gather(*(process.wait_ready() for process in self.processes.values()))

    async def stop(self) -> None:
        """Whoever calls ends before whom it calls."""
        for name in reversed(self.processes):
            await self.processes[name].stop()
        for edge in self.edges.values():
            await edge.stop()

    def of_kind(self, kind: str) -> list[KeptProcess]:
        return [
            process for name, process in self.processes.items() if name.rstrip("0123456789") == kind
        ]

    def gateway_is_going(self) -> None:
        """Clients of a gateway are about to lose it, which no promise covers."""
        self.downs.append(time.monotonic())

    async def blocks_in_use(self, verifier: str) -> int:
        """What the verifier itself says when it is asked for a step without work."""
        client = VerifierClient(f"unix:{self.plan.socket(verifier)}", step_timeout_s=5.0)
        try:
            info = await client.info()
            outcome = await client.step(_empty_step())
            return info.num_blocks - outcome.num_free_blocks
        finally:
            await client.close()

    async def live_requests(self, scheduler: str) -> int:
        client = SchedulerClient(f"unix:{self.plan.socket(scheduler)}")
        try:
            status = await client.status()
            return int(status.num_running + status.num_waiting)
        finally:
            await client.channel.close()

    async def wait_idle(self, timeout_s: float) -> None:
        """Wait until nothing runs and no block is in use; raises TimeoutError."""
        for scheduler in self.plan.schedulers:
            await until(lambda s=scheduler: self._is_zero(self.live_requests(s)), timeout_s)  # type: ignore[misc]
        for verifier in self.plan.verifiers:
            await until(lambda v=verifier: self._is_zero(self.blocks_in_use(v)), timeout_s)  # type: ignore[misc]

    async def _is_zero(self, count: Awaitable[int]) -> bool:
        return await count == 0

    def _health_of(self, name: str) -> Callable[[], Awaitable[bool]]:
        service = f"dspark.v1.{_HEALTH_NAMES[name.rstrip('0123456789')]}"

        async def is_ready() -> bool:
            channel = rpc.channel(f"unix:{self.plan.socket(name)}")
            try:
                return await rpc.is_ready(channel, service)
            finally:
                await channel.close()

        return is_ready

    async def _redis_answers(self) -> bool:
        client = redis.asyncio.Redis.from_url(f"unix://{self.plan.socket('redis')}")
        try:
            return bool(await client.ping())
        except redis.RedisError:
            return False
        finally:
            await client.aclose()


@asynccontextmanager
async def running_fleet(plan: FleetPlan) -> AsyncIterator[Fleet]:
    """A fleet that is ready; every process has ended afterwards."""
    fleet = Fleet(plan)
    try:
        await fleet.start()
        yield fleet
    finally:
        await fleet.stop()


def _empty_step() -> StepPlan:
    return StepPlan(f"probe-{uuid.uuid4().hex}", 1, (), (), (), 0)
