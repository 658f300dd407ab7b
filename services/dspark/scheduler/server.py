"""The scheduler as a gRPC server, with health that follows its progress."""

from __future__ import annotations

import asyncio
import logging

from dspark import rpc
from dspark.background_task import end, start_background
from dspark.scheduler.balancer import Balancer
from dspark.scheduler.books import new_books
from dspark.scheduler.candidates_client import new_fleet
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.scheduler import Scheduler
from dspark.scheduler.servicer import SERVICE, SchedulerServicer
from dspark.scheduler.shipping import BlockShipping
from dspark.scheduler.verifier_client import VerifierClient
from dspark.scheduler.worker_maker import ClientWorkerMaker
from dspark.scheduler.worker_pool import WorkerPool
from dspark.service_addresses import watch_addresses
from dspark.v1.scheduler_service_pb2_grpc import add_SchedulerServiceServicer_to_server

log = logging.getLogger(__name__)

HEALTH_INTERVAL_S = 0.2
STOP_GRACE_S = 1.0
# What was learnt in the last of these is lost with the process.
SAVE_INTERVAL_S = 60.0


class SchedulerServer:
    """Owns the workers, the scheduler's task and the server; for a process or a test alike."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._books = books = new_books(config)
        self.fleet = new_fleet(config) if config.candidates else None
        maker = ClientWorkerMaker(
            config,
            books,
            self.fleet,
            lambda name: VerifierClient(name, config.step_timeout_s, config.tls),
        )
        self._pool = WorkerPool(lambda: watch_addresses(config.verifier), maker, books)
        self._balancer = Balancer(
            self._pool,
            books.outputs,
            BlockShipping(maker.client_of),
            is_balancing=config.rebalance,
        )
        self.scheduler = Scheduler(config, self._pool, books)
        self._server = rpc.Server([SERVICE], config.serving(config.allow_peers))
        add_SchedulerServiceServicer_to_server(SchedulerServicer(self.scheduler), self._server.grpc)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        """Listen; returns the bound port (0 for a unix socket). Ready once a verifier answers."""
        port = await self._server.start(self._config.listen)
        self._tasks = [
            start_background(self.scheduler.run(), "scheduler"),
            start_background(self._balancer.run(), "balancer"),
            start_background(self._watch_health(), "health"),
            start_background(self._save_calibration(), "calibration"),
        ]
        if self.fleet is not None:
            self._tasks.append(start_background(self.fleet.run(), "candidates"))
        return port

    async def stop(self, drain_s: float = 0.0) -> None:
        """Say NOT_SERVING, let running requests end within ``drain_s``, stop."""
        await self._server.set_ready(False)
        await self.scheduler.drain(drain_s)
        await self._server.stop(STOP_GRACE_S)
        await end(self._tasks)
        await self._balancer.close()
        await self._pool.close()
        if self.fleet is not None:
            await self.fleet.close()
        self._books.calibrations.save()
        if self._books.decisions is not None:
            self._books.decisions.close()

    async def _save_calibration(self) -> None:
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            self._books.calibrations.save()

    async def _watch_health(self) -> None:
        was_ready = False
        while True:
            if (is_ready := self.scheduler.is_healthy) != was_ready:
                log.info("now %s", "ready" if is_ready else "not ready")
                await self._server.set_ready(is_ready)
                was_ready = is_ready
            await asyncio.sleep(HEALTH_INTERVAL_S)
