"""Closed, open, half-open."""

from __future__ import annotations

import pytest

from dspark.circuit_breaker import CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(3, min_pause_s=1.0, max_pause_s=3.0, clock=clock)


def test_opens_only_after_so_many_failures_in_a_row(breaker: CircuitBreaker) -> None:
    for _ in range(5):
        assert not breaker.failed() and not breaker.failed()
        breaker.succeeded()
    assert breaker.allows()
    assert [breaker.failed() for _ in range(4)] == [False, False, True, False]
    assert breaker.is_open
    assert not breaker.allows()


def test_allows_one_trial_when_the_pause_is_over(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        breaker.failed()
    clock.now += 1.0
    assert breaker.allows()
    assert not breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.allows()


def test_a_failed_trial_doubles_the_pause_up_to_its_limit(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    for _ in range(3):
        breaker.failed()
    pauses = []
    for _ in range(4):
        pauses.append(breaker.seconds_to_trial)
        clock.now += breaker.seconds_to_trial
        assert breaker.allows()
        breaker.failed()
    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_a_success_shortens_the_next_pause_again(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        breaker.failed()
    clock.now += 1.0
    breaker.allows()
    breaker.failed()
    breaker.succeeded()
    for _ in range(3):
        breaker.failed()
    assert breaker.seconds_to_trial == 1.0


def test_a_trial_that_never_ends_does_not_keep_it_open(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    for _ in range(3):
        breaker.failed()
    clock.now += 1.0
    assert breaker.allows()
    clock.now += 1.0
    assert breaker.allows()


def test_opened_by_hand_it_allows_a_trial_at_once(breaker: CircuitBreaker) -> None:
    breaker.open()
    assert breaker.is_open
    assert breaker.seconds_to_trial == 0.0
    assert breaker.allows()
