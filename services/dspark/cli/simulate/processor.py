"""Processor time of the scheduler, of which all its workers' steps take turns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dspark.cli.simulate.checks import at_least


@dataclass(frozen=True, slots=True)
class SchedulerModel:
    """What a step takes of the one event loop that a scheduler runs on, in milliseconds."""

    step_ms: float = 0.0
    step_ms_per_request: float = 0.0

    def __post_init__(self) -> None:
        at_least(0, self, "step_ms", "step_ms_per_request")


class Processor:
    """One at a time, first come first served."""

    def __init__(self, model: SchedulerModel) -> None:
        self._model = model
        self._turn = asyncio.Lock()
        self.busy_s = 0.0

    async def step(self, num_requests: int) -> None:
        """Return when the scheduler's own part of a step of so many requests is done."""
        seconds = (self._model.step_ms + self._model.step_ms_per_request * num_requests) / 1e3
        if not seconds:
            return
        async with self._turn:
            await asyncio.sleep(seconds)
        self.busy_s += seconds
