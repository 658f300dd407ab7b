"""The scheduler as a gRPC server, with health that follows its progress."""

from __future__ import annotations

import asyncio
import logging

from dspark import rpc
from dspark.circuit_breaker import CircuitBreaker
from dspark.scheduler.candidates_client import CandidatesClient
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.scheduler import Scheduler
from dspark.scheduler.servicer import SERVICE, SchedulerServicer
from dspark.scheduler.verifier_client import VerifierClient
from dspark.scheduler.verifier_link import VerifierLink
from dspark.v1.scheduler_service_pb2_grpc import add_SchedulerServiceServicer_to_server

log = logging.getLogger(__name__)

HEALTH_INTERVAL_S = 0.2
# An idle scheduler would not notice that its verifier is gone, so it asks this often.
IDLE_PROBE_S = 2.0
STOP_GRACE_S = 1.0
MAX_BREAKER_OPEN_S = 30.0


class SchedulerServer:
    """Owns the clients, the scheduler's task and the server; for a process or a test alike."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._verifier_client = VerifierClient(config.verifier, config.step_timeout_s)
        self._candidates_client = CandidatesClient(config.candidates) if config.candidates else None
        self._verifier = VerifierLink(self._verifier_client, config.verifier_timeout_s)
        self._candidates = self._link_candidates(config)
        self.scheduler = Scheduler(config, self._verifier, self._candidates)
        self._server = rpc.Server([SERVICE])
        add_SchedulerServiceServicer_to_server(SchedulerServicer(self.scheduler), self._server.grpc)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        """Listen; returns the bound port (0 for a unix socket). Ready once a verifier answers."""
        port = await self._server.start(self._config.listen)
        self._tasks = [
            asyncio.create_task(self.scheduler.run(), name="scheduler"),
            asyncio.create_task(self._watch_health(), name="health"),
        ]
        for task in self._tasks:
            task.add_done_callback(_log_failure)
        return port

    async def stop(self, drain_s: float = 0.0) -> None:
        """Say NOT_SERVING, let running requests end within ``drain_s``, stop."""
        await self._server.set_ready(False)
        await self.scheduler.drain(drain_s)
        await self._server.stop(STOP_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._candidates is not None:
            await self._candidates.close()
        if self._candidates_client is not None:
            await self._candidates_client.close()
        await self._verifier_client.close()

    def _link_candidates(self, config: SchedulerConfig) -> CandidatesLink | None:
        if self._candidates_client is None:
            return None
        breaker = CircuitBreaker(config.breaker_failures, config.breaker_open_s, MAX_BREAKER_OPEN_S)
        return CandidatesLink(self._candidates_client, breaker, config.propose_deadline_ms / 1e3)

    async def _watch_health(self) -> None:
        was_ready = False
        next_probe_at = 0.0
        while True:
            now = asyncio.get_running_loop().time()
            if self.scheduler.is_idle and self._verifier.is_known and now >= next_probe_at:
                self._verifier.is_answering = await self._verifier_client.is_ready()
                next_probe_at = now + IDLE_PROBE_S
            if (is_ready := self.scheduler.is_healthy) != was_ready:
                log.info("now %s", "ready" if is_ready else "not ready")
                await self._server.set_ready(is_ready)
                was_ready = is_ready
            await asyncio.sleep(HEALTH_INTERVAL_S)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("task %s failed", task.get_name(), exc_info=error)
