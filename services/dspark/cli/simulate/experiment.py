"""Runs a workload on a fleet, in virtual time: one load, one policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dspark.background_task import end, start_background
from dspark.cli.simulate.fleet import Fleet
from dspark.cli.simulate.load import Outcome
from dspark.cli.simulate.results import Run, StepTotals
from dspark.cli.simulate.samples import Samples
from dspark.cli.simulate.system import System
from dspark.cli.simulate.virtual_time import run_virtual
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.scheduler import Scheduler

_READY_POLL_S = 0.001
Load = Callable[[Scheduler], Awaitable[list[Outcome]]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """What to run: the system, its workers' speeds, and the scheduler's settings."""

    system: System
    speeds: Sequence[float]
    config: SchedulerConfig
    seed: int

    def run(self, load: Load, level: float) -> Run:
        """``level`` is what the run is listed under."""
        return run_virtual(self._run(load, level))

    async def _run(self, load: Load, level: float) -> Run:
        fleet = Fleet(self.system, self.speeds, self.config, self.seed)
        samples = Samples()
        fleet.start()
        looking = start_background(samples.collect(fleet.scheduler), "samples")
        try:
            await _all_ready(fleet)
            outcomes = await load(fleet.scheduler)
        finally:
            await end([looking])
            await fleet.stop()
        return Run(self.config.policy, level, outcomes, _totals(fleet), samples)


async def _all_ready(fleet: Fleet) -> None:
    """Every verifier has a loop, and every candidates service has named its sources."""
    num_workers = len(fleet.verifiers)
    while not num_workers or not all(_is_ready(fleet)):
        await asyncio.sleep(_READY_POLL_S)
        num_workers = len(fleet.verifiers)


def _is_ready(fleet: Fleet) -> list[bool]:
    return [
        worker.is_serving and (worker.candidates is None or worker.known_sources is not None)
        for worker in fleet.pool.workers
    ]


def _totals(fleet: Fleet) -> StepTotals:
    verifiers = fleet.verifiers
    return StepTotals(
        num_steps=sum(each.num_steps for each in verifiers),
        num_rows=sum(each.num_rows for each in verifiers),
        num_requests=sum(each.num_requests for each in verifiers),
        num_preemptions=fleet.scheduler.totals.num_preemptions,
        verifiers_busy_s=sum(each.busy_s for each in verifiers),
        scheduler_busy_s=fleet.processor.busy_s,
        num_workers=len(verifiers),
        num_asked=sum(each.num_calls for each in fleet.candidates),
    )
