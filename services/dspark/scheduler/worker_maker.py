"""From an address to a worker with its clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from dspark.scheduler.books import Books
from dspark.scheduler.call_record import CallRecord, Recorder
from dspark.scheduler.candidates_fleet import CandidatesFleet
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.verifier_link import Verifier, VerifierLink
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_pool import WorkerPool


class OpenVerifier(Verifier, Protocol):
    """A client of a verifier that somebody has to close."""

    async def close(self) -> None: ...


Client = TypeVar("Client", bound=OpenVerifier)


class ClientWorkerMaker(Generic[Client]):
    """Each worker has a client of its verifier, and a link to one candidates service of all.

    ``new_client`` makes the client for a verifier's address.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        books: Books,
        fleet: CandidatesFleet | None,
        new_client: Callable[[str], Client],
    ) -> None:
        self._config = config
        self._books = books
        self._fleet = fleet
        self._new_client = new_client
        self._clients: dict[Worker, Client] = {}
        self._record = CallRecord(Path(config.record_calls)) if config.record_calls else None

    def make(self, name: str, pool: WorkerPool) -> Worker:
        config, client = self._config, self._new_client(name)
        recorder = Recorder(self._record)
        link = VerifierLink(
            recorder.verifier(client),
            config.verifier_timeout_s,
            config.failover_s,
            lambda: pool.has_heir(worker),
        )
        candidates = None if self._fleet is None else self._fleet.new_link(recorder.candidates)
        worker = Worker(name, config, link, candidates, self._books, pool.hand_over)
        self._clients[worker] = client
        return worker

    def client_of(self, worker: Worker) -> Client:
        """The client of its verifier, beside the one link that steps."""
        return self._clients[worker]

    async def close(self, worker: Worker) -> None:
        if worker.candidates is not None and self._fleet is not None:
            await self._fleet.close_link(worker.candidates)
        await self._clients.pop(worker).close()
        if self._record is not None:
            self._record.close()
