"""A storm over a loaded fleet, from the undisturbed twins to the verdict."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from harness.chaos.fleet import Fleet
from harness.chaos.footprint import Footprint, footprint
from harness.chaos.load import Load
from harness.chaos.log_scan import complaints
from harness.chaos.outcome import Outcome
from harness.chaos.plan import LEASE_S
from harness.chaos.report import Report
from harness.chaos.storm import Storm
from harness.chaos.stream_spec import StreamSpec
from harness.chaos.verdict import judge, make_twins

# Whatever an orphan holds is free after its lease; the rest is slack for a loaded machine.
IDLE_TIMEOUT_S = LEASE_S + 30.0
# A connection that one end has given up is kept by the other until its pings fail.
MAX_MORE_FDS = 12


@dataclass(frozen=True)
class Campaign:
    """``specs`` are run in turn, again and again, until the storm is over and each was run."""

    specs: Sequence[StreamSpec]
    concurrency: int
    hang_up_share: float = 0.0
    seed: int = 0

    async def run(self, fleet: Fleet, storm: Storm) -> Report:
        """Its ``violations`` are empty when every promise was kept."""
        load = Load(fleet, self.concurrency)
        try:
            twins = make_twins(await load.run_all([spec.plainly() for spec in self.specs]))
            before = footprints(fleet)
            outcomes = await self._run_disturbed(load, storm)
        finally:
            await load.close()
        violations = await leftovers(fleet, before)
        return Report(
            verdict=judge(outcomes, twins, fleet.downs),
            faults=storm.counts,
            fault_log=tuple(storm.log),
            started_at=storm.started_at,
            before=before,
            after=footprints(fleet),
            leftovers=(*violations, *complaints(fleet)),
        )

    async def _run_disturbed(self, load: Load, storm: Storm) -> list[Outcome]:
        hang_ups = random.Random(self.seed)
        source = _Counted(self.specs)
        blowing = asyncio.create_task(storm.blow())
        try:
            return await load.run_until(
                source,
                lambda: storm.is_over and source.num_taken >= len(self.specs),
                hang_ups,
                self.hang_up_share,
            )
        finally:
            if not blowing.done():
                blowing.cancel()
            await blowing


class _Counted:
    """The specs in a circle; ``num_taken`` says how many were taken."""

    def __init__(self, specs: Sequence[StreamSpec]) -> None:
        self._circle = itertools.cycle(specs)
        self.num_taken = 0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> StreamSpec:
        self.num_taken += 1
        return next(self._circle)


def footprints(fleet: Fleet) -> dict[str, Footprint]:
    """By process; one that has just ended is left out."""
    pids = {name: process.pid for name, process in fleet.processes.items()}
    return {name: footprint(pid) for name, pid in pids.items() if pid is not None}


async def leftovers(fleet: Fleet, before: dict[str, Footprint]) -> list[str]:
    """What is still held although nobody asks for anything any more."""
    found = []
    try:
        await fleet.wait_idle(IDLE_TIMEOUT_S)
    except TimeoutError:
        for verifier in fleet.plan.verifiers:
            if in_use := await fleet.blocks_in_use(verifier):
                found.append(f"{verifier}: {in_use} blocks are in use though nothing runs")
        for scheduler in fleet.plan.schedulers:
            if live := await fleet.live_requests(scheduler):
                found.append(f"{scheduler}: {live} requests are live though no client waits")
    for name, now in footprints(fleet).items():
        if now.num_fds > before[name].num_fds + MAX_MORE_FDS:
            found.append(f"{name}: {before[name].num_fds} file descriptors became {now.num_fds}")
    return found
