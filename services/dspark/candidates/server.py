"""The candidates service as a process: starts, serves until SIGTERM, drains."""

from __future__ import annotations

import asyncio
import logging
import signal

from dspark.background_task import start_background
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.metrics import metrics_registry
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.servicer import SERVICE_NAME, CandidatesServicer
from dspark.garbage import keep_what_is_there
from dspark.metrics.endpoint import MetricsEndpoint
from dspark.rpc import Server
from dspark.v1 import candidates_service_pb2_grpc as pb_grpc

log = logging.getLogger(__name__)


class CandidatesServer:
    """A listening candidates service over the given proposer."""

    def __init__(self, proposer: Proposer, config: CandidatesConfig) -> None:
        self.proposer = proposer
        self._config = config
        self._server = Server([SERVICE_NAME], config.serving(config.allow_peers))
        self._reclaimer: asyncio.Task[None] | None = None
        pb_grpc.add_CandidatesServiceServicer_to_server(
            CandidatesServicer(proposer), self._server.grpc
        )

    async def start(self) -> int:
        """Listen; returns the bound port (of a unix socket, 1 means bound)."""
        await self.proposer.start()
        self._reclaimer = start_background(self._reclaim(), "reclaimer")
        port = await self._server.start(self._config.listen)
        await self._server.set_ready(True)
        return port

    async def stop(self) -> None:
        """Say NOT_SERVING, let running calls end, stop."""
        await self._server.stop(self._config.drain_s)
        if self._reclaimer is not None:
            self._reclaimer.cancel()
        await self.proposer.close()

    async def _reclaim(self) -> None:
        """Every call reclaims what its lease left behind; this does so when no calls come."""
        while True:
            await asyncio.sleep(self._config.lease_s / 4)
            if reclaimed := self.proposer.sequences.reclaim():
                log.info("forgot %d sequences that nobody used", reclaimed)


async def serve(config: CandidatesConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    sources = build_sources(config)
    server = CandidatesServer(Proposer(sources, config), config)
    metrics = MetricsEndpoint(metrics_registry(server.proposer), config.metrics_port)
    await server.start()
    keep_what_is_there()
    log.info("candidates on %s: %s", config.listen, ", ".join(source.name for source in sources))
    await stopping.wait()
    log.info("candidates: draining")
    await server.stop()
    metrics.close()
