"""Where the time of steps goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, fields
from statistics import median, quantiles

from dspark.sampling import StepBreakdown

RING_SIZE = 4096


@dataclass(frozen=True, slots=True)
class StepTiming:
    """One step, in milliseconds; meanings as in the message StepBreakdown."""

    propose_ms: float
    verify_ms: float
    forward_ms: float
    overhead_ms: float
    ahead_ms: float = 0.0


@dataclass(slots=True)
class StepClock:
    """When the parts of the present step began, by dspark.clock."""

    started: float
    drafted: float = 0.0
    verified: float = 0.0


_PARTS = tuple(field.name for field in fields(StepTiming))


def breakdown(timings: Iterable[StepTiming]) -> StepBreakdown:
    """The medians; zeros when there was no step."""
    timings = list(timings)
    if not timings:
        return StepBreakdown()
    return StepBreakdown(**{p: median(getattr(t, p) for t in timings) for p in _PARTS})


class TimingRing:
    """The last steps of the scheduler."""

    def __init__(self, size: int = RING_SIZE) -> None:
        self._timings: deque[StepTiming] = deque(maxlen=size)

    def add(self, timing: StepTiming) -> None:
        self._timings.append(timing)

    def describe(self) -> str:
        """Percentiles of each part, as one line for the log."""
        if len(self._timings) < 2:
            return "no steps yet"
        parts = []
        for part in _PARTS:
            cuts = quantiles((getattr(t, part) for t in self._timings), n=100)
            parts.append(f"{part} p50={cuts[49]:.2f} p90={cuts[89]:.2f} p99={cuts[98]:.2f}")
        return f"{len(self._timings)} steps: " + "; ".join(parts)
