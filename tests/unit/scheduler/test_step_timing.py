"""Medians of steps."""

from __future__ import annotations

from dspark.sampling import StepBreakdown
from dspark.scheduler.step_timing import StepTiming, TimingRing, breakdown


def test_the_breakdown_has_medians() -> None:
    timings = [StepTiming(float(i), 10.0 * i, 100.0 * i, 7.0) for i in (3, 1, 2)]
    assert breakdown(timings) == StepBreakdown(2.0, 20.0, 200.0, 7.0)
    assert breakdown([]) == StepBreakdown()


def test_the_ring_is_bounded_and_describes_itself() -> None:
    ring = TimingRing(size=10)
    assert ring.describe() == "no steps yet"
    for i in range(100):
        ring.add(StepTiming(0.0, float(i), 0.0, 0.0))
    text = ring.describe()
    assert text.startswith("10 steps") and "verify_ms p50=94.50" in text
