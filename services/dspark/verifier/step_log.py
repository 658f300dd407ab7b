"""Exactly-once steps: the last reply of each scheduler, kept for a repeat."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from dspark.errors import StaleStep

Reply = TypeVar("Reply")

# Schedulers whose last step is kept; one restarts rarely, so older ones are gone for good.
_MAX_SCHEDULERS = 64


class StepLog(Generic[Reply]):
    """Runs each step of each scheduler once.

    A repeat of the last step id awaits or returns its reply, an older one raises StaleStep. A
    caller that goes away does not cancel the step. A step that failed runs again when it is
    repeated.
    """

    def __init__(self) -> None:
        # calls for a step that was asked for before
        self.num_repeats = 0
        self._last: OrderedDict[str, tuple[int, asyncio.Task[Reply]]] = OrderedDict()

    async def once(
        self, scheduler_id: str, step_id: int, run: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        last = self._last.get(scheduler_id)
        if last is not None and step_id < last[0]:
            raise StaleStep(step_id, last[0])
        if last is None or step_id > last[0] or _has_failed(last[1]):
            last = (step_id, asyncio.ensure_future(_await(run)))
            self._last[scheduler_id] = last
        else:
            self.num_repeats += 1
        self._last.move_to_end(scheduler_id)
        while len(self._last) > _MAX_SCHEDULERS:
            self._last.popitem(last=False)
        return await asyncio.shield(last[1])

    def knows(self, scheduler_id: str) -> bool:
        """Whether it has run a step of that scheduler."""
        return scheduler_id in self._last

    async def drain(self) -> None:
        """Wait until no step is running."""
        running = [task for _, task in self._last.values() if not task.done()]
        if running:
            await asyncio.wait(running)


async def _await(run: Callable[[], Awaitable[Reply]]) -> Reply:
    return await run()


def _has_failed(task: asyncio.Task[Reply]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
