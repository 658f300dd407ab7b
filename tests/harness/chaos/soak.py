"""Load for a long time, and what the memory of each service does meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from harness.chaos.campaign import footprints, leftovers
from harness.chaos.fleet import Fleet
from harness.chaos.footprint import Footprint
from harness.chaos.load import Load
from harness.chaos.log_scan import complaints
from harness.chaos.stream_spec import StreamSpec
from harness.chaos.verdict import Verdict, judge, make_twins

MAX_DRIFT = 0.03
# Its store is meant to fill; it has a cap of its own.
_NOT_CHECKED = ("redis",)
_SAMPLE_INTERVAL_S = 1.0


@dataclass
class Samples:
    """Footprints of the fleet under load, with their times in seconds since its start."""

    taken: list[tuple[float, dict[str, Footprint]]] = field(default_factory=list)

    def rss_kib(self, name: str, start_s: float, end_s: float) -> float:
        """The median between two times."""
        return median(prints[name].rss_kib for at, prints in self.taken if start_s <= at <= end_s)


@dataclass(frozen=True)
class SoakReport:
    """``drifts`` has the memory after the warm-up and at the end, in KiB, by process."""

    verdict: Verdict
    drifts: dict[str, tuple[float, float]]
    leftovers: tuple[str, ...]

    @property
    def violations(self) -> tuple[str, ...]:
        drifted = (
            f"{name}: resident memory went from {before:.0f} to {after:.0f} KiB"
            for name, (before, after) in self.drifts.items()
            if name not in _NOT_CHECKED and abs(after - before) > MAX_DRIFT * before
        )
        return (*self.verdict.violations, *self.leftovers, *drifted)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict.num_streams} requests, {self.verdict.num_hung_up} clients hung up",
            "process         MiB after warm-up   MiB at the end   drift",
            *(_line(name, *drift) for name, drift in self.drifts.items()),
            *(f"VIOLATION {each}" for each in self.violations),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Soak:
    """``specs`` in turn for ``duration_s``; a share of the clients hangs up in the middle."""

    specs: Sequence[StreamSpec]
    duration_s: float = 600.0
    warm_up_s: float = 120.0
    concurrency: int = 16
    hang_up_share: float = 0.3
    seed: int = 0

    async def run(self, fleet: Fleet) -> SoakReport:
        load, samples = Load(fleet, self.concurrency), Samples()
        try:
            twins = make_twins(await load.run_all([spec.plainly() for spec in self.specs]))
            before = footprints(fleet)
            over_at = time.monotonic() + self.duration_s
            sampling = asyncio.create_task(_sample(fleet, samples))
            outcomes = await load.run_until(
                itertools.cycle(self.specs),
                lambda: time.monotonic() > over_at,
                random.Random(self.seed),
                self.hang_up_share,
            )
            sampling.cancel()
        finally:
            await load.close()
        held = await leftovers(fleet, before)
        return SoakReport(
            verdict=judge(outcomes, twins, fleet.downs),
            drifts={name: self._drift(samples, name) for name in before},
            leftovers=(*held, *complaints(fleet)),
        )

    def _drift(self, samples: Samples, name: str) -> tuple[float, float]:
        window_s = self.duration_s / 20
        return (
            samples.rss_kib(name, self.warm_up_s, self.warm_up_s + window_s),
            samples.rss_kib(name, self.duration_s - window_s, self.duration_s),
        )


def _line(name: str, before: float, after: float) -> str:
    drift = after / before - 1
    return f"{name:14s}  {before / 1024:17.1f}  {after / 1024:15.1f}  {drift:+6.1%}"


async def _sample(fleet: Fleet, samples: Samples) -> None:
    started = time.monotonic()
    while True:
        samples.taken.append((time.monotonic() - started, footprints(fleet)))
        await asyncio.sleep(_SAMPLE_INTERVAL_S)
