"""Faults one after another and some at once, drawn from a seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence

from harness.chaos.faults import FAULTS, LONG_FAULTS
from harness.chaos.fleet import Fleet


class Storm:
    """Draws ``num_faults`` kinds so that each of ``kinds`` comes as often as any other.

    At most ``overlap`` of them happen at a time. ``log`` has a line for each: when, by seconds
    since ``started_at``, and what.
    """

    def __init__(
        self,
        fleet: Fleet,
        seed: int,
        num_faults: int,
        kinds: Sequence[str] = tuple(FAULTS),
        overlap: int = 2,
        pause_s: tuple[float, float] = (0.1, 0.8),
    ) -> None:
        self._fleet = fleet
        self._generator = random.Random(seed)
        rounds = -(-num_faults // len(kinds))
        drawn = [kind for _ in range(rounds) for kind in self._shuffled(kinds)]
        self._kinds = drawn[:num_faults]
        self._overlap = asyncio.Semaphore(overlap)
        self._pause_s = pause_s
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.is_over = False
        self.started_at = 0.0

    async def blow(self) -> None:
        """Do them all, and wait until everything is as it was."""
        self.started_at = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                await self._overlap.acquire()
                group.create_task(self._do(kind, random.Random(self._generator.random())))
                await asyncio.sleep(self._generator.uniform(*self._pause_s))
        await self._fleet.wait_ready()
        self.is_over = True

    async def _do(self, kind: str, generator: random.Random) -> None:
        try:
            began = time.monotonic() - self.started_at
            detail = await (FAULTS | LONG_FAULTS)[kind](self._fleet, generator)
            ended = time.monotonic() - self.started_at
            self.counts[kind] += 1
            self.log.append(f"{began:6.1f} to {ended:6.1f} s  {kind}  {detail}")
        finally:
            self._overlap.release()

    def _shuffled(self, kinds: Sequence[str]) -> list[str]:
        return self._generator.sample(list(kinds), len(kinds))
