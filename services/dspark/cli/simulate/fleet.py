"""The scheduler itself, with simulated verifiers and candidates in place of clients."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

from dspark.circuit_breaker import CircuitBreaker
from dspark.cli.simulate.keyed_draws import combined
from dspark.cli.simulate.processor import Processor
from dspark.cli.simulate.simulated_candidates import SimulatedCandidates
from dspark.cli.simulate.simulated_verifier import SimulatedVerifier
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.scheduler.balancer import Balancer
from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.call_record import CallRecord, Recorder
from dspark.scheduler.candidates_client import MAX_BREAKER_OPEN_S
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.live_requests import Numbers
from dspark.scheduler.scheduler import Scheduler
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import TimingRing
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.worker import Books, Worker
from dspark.scheduler.worker_pool import WorkerPool
from dspark.service_addresses import watch_addresses


class Fleet:
    """A scheduler and a worker for each of ``speeds``, which are relative to the system's."""

    def __init__(
        self, system: System, speeds: Sequence[float], config: SchedulerConfig, seed: int
    ) -> None:
        self.processor = Processor(system.scheduler)
        self._maker = _SimulatedWorkerMaker(system, speeds, config, seed, self.processor)
        books = self._maker.books
        self.pool = WorkerPool(lambda: watch_addresses(config.verifier), self._maker, books)
        # A request that moves is computed anew: how fast K/V travels is not modelled.
        self.balancer = Balancer(self.pool, books.outputs, is_balancing=config.rebalance)
        self.scheduler = Scheduler(config, self.pool, books)

    @property
    def verifiers(self) -> list[SimulatedVerifier]:
        return self._maker.verifiers

    @property
    def candidates(self) -> list[SimulatedCandidates]:
        return self._maker.candidates


def addresses(num_workers: int) -> tuple[str, ...]:
    """Names of simulated verifiers, in the form of addresses."""
    return tuple(f"simulated-{index}:1" for index in range(num_workers))


def faster(model: VerifierModel, speed: float) -> VerifierModel:
    """The same verifier, with passes that take 1/``speed`` of the time."""
    if model.roofline is not None:
        whole = model.roofline
        roofline = dataclasses.replace(
            whole,
            bandwidth_bytes_per_s=whole.bandwidth_bytes_per_s * speed,
            peak_flops=whole.peak_flops * speed,
            launch_ms=whole.launch_ms / speed,
        )
        return dataclasses.replace(model, roofline=roofline)
    costs = [c._replace(milliseconds=c.milliseconds / speed) for c in model.verify_costs]
    return dataclasses.replace(model, verify_costs=tuple(costs))


class _SimulatedWorkerMaker:
    """Makes workers as GrpcWorkerMaker does, but for what their links call."""

    def __init__(
        self,
        system: System,
        speeds: Sequence[float],
        config: SchedulerConfig,
        seed: int,
        processor: Processor,
    ) -> None:
        self.books = Books(Totals(), TimingRing(), Numbers(lambda: 1), CalibrationStore())
        self.verifiers: list[SimulatedVerifier] = []
        self.candidates: list[SimulatedCandidates] = []
        self._system = system
        self._speeds = dict(zip(config.verifier, itertools.cycle(speeds), strict=False))
        self._config = config
        self._seed = seed
        self._processor = processor
        self._record = CallRecord(Path(config.record_calls)) if config.record_calls else None

    def make(self, name: str, pool: WorkerPool) -> Worker:
        config = self._config
        model = faster(self._system.verifier, self._speeds[name])
        key = combined(self._seed, len(self.verifiers))
        verifier = SimulatedVerifier(model, self._processor, key)
        self.verifiers.append(verifier)
        recorder = Recorder(self._record)
        link = VerifierLink(
            recorder.verifier(verifier),
            config.verifier_timeout_s,
            config.failover_s,
            lambda: pool.has_heir(worker),
        )
        asked = self._candidates_link(recorder)
        worker = Worker(name, config, link, asked, self.books, pool.hand_over)
        return worker

    async def close(self, worker: Worker) -> None:
        if worker.candidates is not None:
            await worker.candidates.close()
        if self._record is not None:
            self._record.close()

    def _candidates_link(self, recorder: Recorder) -> CandidatesLink | None:
        model, config = self._system.candidates, self._config
        if model is None:
            return None
        client = SimulatedCandidates(model, model.guesses(self._seed))
        self.candidates.append(client)
        breaker = CircuitBreaker(config.breaker_failures, config.breaker_open_s, MAX_BREAKER_OPEN_S)
        asked = recorder.candidates(client)
        return CandidatesLink(asked, breaker, config.propose_deadline_ms / 1e3)
