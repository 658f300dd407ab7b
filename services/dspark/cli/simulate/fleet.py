"""The scheduler itself, with simulated verifiers and candidates in place of clients."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Sequence

from dspark.background_task import end, start_background
from dspark.circuit_breaker import CircuitBreaker
from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.keyed_draws import combined
from dspark.cli.simulate.processor import Processor
from dspark.cli.simulate.simulated_candidates import SimulatedCandidates
from dspark.cli.simulate.simulated_verifier import SimulatedVerifier
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.scheduler.balancer import Balancer
from dspark.scheduler.books import Books
from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.candidates_client import MAX_BREAKER_OPEN_S
from dspark.scheduler.candidates_fleet import CandidatesFleet
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.live_requests import Numbers
from dspark.scheduler.scheduler import Scheduler
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import TimingRing
from dspark.scheduler.worker_maker import ClientWorkerMaker
from dspark.scheduler.worker_pool import WorkerPool
from dspark.service_addresses import watch_addresses


class Fleet:
    """A scheduler and a worker for each of ``speeds``, which are relative to the system's.

    Every worker has a candidates service beside it. Requests that move are computed anew.
    """

    def __init__(
        self, system: System, speeds: Sequence[float], config: SchedulerConfig, seed: int
    ) -> None:
        books = Books(Totals(), TimingRing(), Numbers(lambda: 1), CalibrationStore())
        self.processor = Processor(system.scheduler)
        self.candidates: list[SimulatedCandidates] = []
        self._candidates_fleet = self._new_candidates_fleet(system.candidates, config, seed)
        self.verifiers: list[SimulatedVerifier] = []
        speed_of = dict(zip(config.verifier, itertools.cycle(speeds), strict=False))

        def new_verifier(name: str) -> SimulatedVerifier:
            key = combined(seed, len(self.verifiers))
            model = faster(system.verifier, speed_of[name])
            self.verifiers.append(SimulatedVerifier(model, self.processor, key))
            return self.verifiers[-1]

        maker = ClientWorkerMaker(config, books, self._candidates_fleet, new_verifier)
        self.pool = WorkerPool(lambda: watch_addresses(config.verifier), maker, books)
        self.scheduler = Scheduler(config, self.pool, books)
        self._balancer = Balancer(self.pool, books.outputs, is_balancing=config.rebalance)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Run as the scheduler's server does."""
        self._tasks = [
            start_background(self.scheduler.run(), "scheduler"),
            start_background(self._balancer.run(), "balancer"),
        ]
        if self._candidates_fleet is not None:
            self._tasks.append(start_background(self._candidates_fleet.run(), "candidates"))

    async def stop(self) -> None:
        await end(self._tasks)
        await self._balancer.close()
        await self.pool.close()
        if self._candidates_fleet is not None:
            await self._candidates_fleet.close()

    def _new_candidates_fleet(
        self, model: CandidatesModel | None, config: SchedulerConfig, seed: int
    ) -> CandidatesFleet | None:
        if model is None:
            return None
        guesses = model.guesses(seed)

        def new_client(address: str) -> SimulatedCandidates:
            self.candidates.append(SimulatedCandidates(model, guesses))
            return self.candidates[-1]

        def new_breaker() -> CircuitBreaker:
            failures, pause_s = config.breaker_failures, config.breaker_open_s
            return CircuitBreaker(failures, pause_s, MAX_BREAKER_OPEN_S)

        return CandidatesFleet(
            lambda: watch_addresses(config.candidates),
            new_client,
            new_breaker,
            config.propose_deadline_ms / 1e3,
            is_near=lambda address: True,
        )


def addresses(num_workers: int, kind: str = "verifier") -> tuple[str, ...]:
    """Names of simulated services, in the form of addresses."""
    return tuple(f"{kind}-{index}:1" for index in range(num_workers))


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
