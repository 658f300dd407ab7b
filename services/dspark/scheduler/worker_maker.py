"""From an address to a worker with its clients."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from dspark.circuit_breaker import CircuitBreaker
from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.call_record import CallRecord, Recorder
from dspark.scheduler.candidates_client import CandidatesClient
from dspark.scheduler.candidates_link import Candidates, CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.decision_log import DecisionLog
from dspark.scheduler.live_requests import Numbers
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import TimingRing
from dspark.scheduler.verifier_client import VerifierClient
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.worker import Books, Worker
from dspark.scheduler.worker_pool import WorkerPool

MAX_BREAKER_OPEN_S = 30.0
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
    """Each worker has a channel to its verifier and one to a candidates service, taken in turn."""

    def __init__(self, config: SchedulerConfig, books: Books) -> None:
        self._config = config
        self._books = books
        self._candidates = itertools.cycle(config.candidates or ("",))
        self._clients: dict[Worker, tuple[VerifierClient, CandidatesClient | None]] = {}
        self._record = CallRecord(Path(config.record_calls)) if config.record_calls else None

    def make(self, name: str, pool: WorkerPool) -> Worker:
        config = self._config
        verifier = VerifierClient(name, config.step_timeout_s, config.tls)
        address = next(self._candidates)
        candidates = CandidatesClient(address, config.tls) if address else None
        recorder = Recorder(self._record)
        asked = None if candidates is None else recorder.candidates(candidates)
        link = VerifierLink(
            recorder.verifier(verifier),
            config.verifier_timeout_s,
            config.failover_s,
            lambda: pool.has_heir(worker),
        )
        worker = Worker(name, config, link, self._link(asked), self._books, pool.hand_over)
        self._clients[worker] = verifier, candidates
        return worker

    async def close(self, worker: Worker) -> None:
        if worker.candidates is not None:
            await worker.candidates.close()
        verifier, candidates = self._clients.pop(worker)
        if candidates is not None:
            await candidates.close()
        await verifier.close()
        if self._record is not None:
            self._record.close()

    def _link(self, client: Candidates | None) -> CandidatesLink | None:
        if client is None:
            return None
        config = self._config
        breaker = CircuitBreaker(config.breaker_failures, config.breaker_open_s, MAX_BREAKER_OPEN_S)
        return CandidatesLink(client, breaker, config.propose_deadline_ms / 1e3)


def _epoch_now() -> int:
    return max(1, int((time.time() - _EPOCH_ZERO_S) * _EPOCHS_PER_S) & 0x7FFF_FFFF)
