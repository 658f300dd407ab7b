"""From an address to a worker with its clients."""

from __future__ import annotations

import time
from pathlib import Path

from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.call_record import CallRecord, Recorder
from dspark.scheduler.candidates_fleet import CandidatesFleet
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.decision_log import DecisionLog
from dspark.scheduler.live_requests import Numbers
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import TimingRing
from dspark.scheduler.verifier_client import VerifierClient
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.worker import Books, Worker
from dspark.scheduler.worker_pool import WorkerPool

# Epochs follow the time, in sixteenths of a second, so those of a scheduler that goes on with the
# requests of another, or of its own former process, are larger.
_EPOCH_ZERO_S = 1_750_000_000
_EPOCHS_PER_S = 16


def new_books(config: SchedulerConfig) -> Books:
    """Empty ones, but for what was learnt before and saved."""
    return Books(
        Totals(),
        TimingRing(),
        Numbers(_epoch_now),
        CalibrationStore.load(config.calibration_file),
        DecisionLog(Path(config.decision_log)) if config.decision_log else None,
    )


class GrpcWorkerMaker:
    """Each worker has a channel to its verifier, and a link to one candidates service of all."""

    def __init__(
        self, config: SchedulerConfig, books: Books, fleet: CandidatesFleet | None
    ) -> None:
        self._config = config
        self._books = books
        self._fleet = fleet
        self._clients: dict[Worker, VerifierClient] = {}
        self._record = CallRecord(Path(config.record_calls)) if config.record_calls else None

    def make(self, name: str, pool: WorkerPool) -> Worker:
        config = self._config
        verifier = VerifierClient(name, config.step_timeout_s, config.tls)
        recorder = Recorder(self._record)
        link = VerifierLink(
            recorder.verifier(verifier),
            config.verifier_timeout_s,
            config.failover_s,
            lambda: pool.has_heir(worker),
        )
        candidates = None if self._fleet is None else self._fleet.new_link(recorder.candidates)
        worker = Worker(name, config, link, candidates, self._books, pool.hand_over)
        self._clients[worker] = verifier
        return worker

    def client_of(self, worker: Worker) -> VerifierClient:
        """The client of its verifier, beside the one link that steps."""
        return self._clients[worker]

    async def close(self, worker: Worker) -> None:
        if worker.candidates is not None and self._fleet is not None:
            await self._fleet.close_link(worker.candidates)
        await self._clients.pop(worker).close()
        if self._record is not None:
            self._record.close()


def _epoch_now() -> int:
    return max(1, int((time.time() - _EPOCH_ZERO_S) * _EPOCHS_PER_S) & 0x7FFF_FFFF)
