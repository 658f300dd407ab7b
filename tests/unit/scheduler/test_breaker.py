"""Closed, open, half-open."""

from __future__ import annotations

from dspark.scheduler.breaker import MAX_OPEN_S, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(max_failures=3, open_s=1.0, clock=clock)


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = make(Clock())
    for _ in range(5):
        assert not breaker.failed() and not breaker.failed()
        breaker.succeeded()
    assert breaker.allows()
    assert [breaker.failed() for _ in range(3)] == [False, False, True]
    assert not breaker.allows() and not breaker.is_closed


def test_a_probe_closes_it_or_doubles_the_pause() -> None:
    clock = Clock()
    breaker = make(clock)
    for _ in range(3):
        breaker.failed()
    clock.now = 1.0
    assert breaker.allows()
    breaker.failed()
    clock.now = 2.9
    assert not breaker.allows()
    clock.now = 3.0
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.is_closed and breaker.allows()


def test_the_pause_has_a_limit() -> None:
    clock = Clock()
    breaker = make(clock)
    for _ in range(20):
        breaker.failed()
    clock.now = MAX_OPEN_S
    assert breaker.allows()
