"""Looks at a running scheduler now and then: what waits, what runs, at which price."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from dspark.scheduler.scheduler import Scheduler

INTERVAL_S = 0.1


@dataclass(slots=True)
class Samples:
    """One entry for each look at a scheduler that had something to do; prices for each worker."""

    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    prices: list[float] = field(default_factory=list)

    async def collect(self, scheduler: Scheduler) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            status = scheduler.status
            if not status.num_running + status.num_waiting:
                continue
            self.waiting.append(status.num_waiting)
            self.running.append(status.num_running)
            self.prices += [
                worker.knowledge.policy.price
                for worker in scheduler.pool.workers
                if worker.knowledge is not None and worker.live.running
            ]
