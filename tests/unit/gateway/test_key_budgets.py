"""What API keys may use, in a time that the test tells."""

from __future__ import annotations

import pytest

from dspark.errors import InvalidArgument, RateLimited
from dspark.gateway.caller import ANYBODY, Caller
from dspark.gateway.key_budgets import KeyBudgets
from dspark.gateway.key_limits import NO_LIMITS, KeyLimits, parse_limits
from dspark.gateway.token_bucket import TokenBucket


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def key(**limits: int) -> Caller:
    return Caller("alice", "alice", KeyLimits(**limits))


def test_a_bucket_is_full_at_first_and_fills_within_a_minute() -> None:
    bucket = TokenBucket(60, now=0)
    bucket.spend(60, now=0)
    assert bucket.wait_s(0) == 1
    assert bucket.wait_s(1) == 0
    bucket.spend(1, now=1)
    assert bucket.wait_s(1000) == 0
    bucket.spend(60, now=1000)
    assert bucket.wait_s(1000) == 1


def test_a_debt_is_waited_for_at_the_rate() -> None:
    bucket = TokenBucket(120, now=0)
    bucket.spend(360, now=0)
    assert bucket.wait_s(0) == pytest.approx(120.5)
    assert bucket.wait_s(120) == pytest.approx(0.5)


def test_a_new_rate_counts_from_now_on() -> None:
    bucket = TokenBucket(600, now=0)
    bucket.set_rate(60, now=0)
    bucket.spend(120, now=0)
    assert bucket.wait_s(0) == pytest.approx(61)
    bucket.set_rate(6000, now=0)
    assert bucket.wait_s(0) == pytest.approx(0.61)


def test_no_more_choices_run_at_once_than_allowed() -> None:
    budgets, alice = KeyBudgets(Clock()), key(max_concurrency=3)
    with budgets.held(alice, 2), budgets.held(alice, 1):
        with pytest.raises(RateLimited) as caught, budgets.held(alice, 1):
            pass
        assert caught.value.metadata == {"limit": "max_concurrency"}
        assert caught.value.retry_after_s == 1
        with budgets.held(Caller("bob", "bob", alice.limits), 3):
            pass
    with budgets.held(alice, 3):
        pass


def test_a_place_comes_back_when_a_request_fails() -> None:
    budgets, alice = KeyBudgets(Clock()), key(max_concurrency=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), budgets.held(alice, 1):
            raise ZeroDivisionError


def test_more_choices_than_a_key_may_ever_run_are_no_matter_of_time() -> None:
    budgets = KeyBudgets(Clock())
    with pytest.raises(InvalidArgument) as caught, budgets.held(key(max_concurrency=3), 4):
        pass
    assert caught.value.field == "n"


def test_tokens_a_minute_are_refused_with_the_time_until_there_are_some() -> None:
    clock = Clock()
    budgets, alice = KeyBudgets(clock), key(tokens_per_minute=60)
    with budgets.held(alice, 1) as spend:
        spend(100)
        # What runs goes on: its client has a part of it already.
        spend(20)
    with pytest.raises(RateLimited) as caught, budgets.held(alice, 1):
        pass
    assert caught.value.metadata == {"limit": "tokens_per_minute"}
    assert caught.value.retry_after_s == 61
    clock.now += 61
    with budgets.held(alice, 1):
        pass


def test_what_was_used_outlives_a_change_of_the_limits() -> None:
    clock = Clock()
    budgets = KeyBudgets(clock)
    with budgets.held(key(tokens_per_minute=60), 1) as spend:
        spend(120)
    with pytest.raises(RateLimited), budgets.held(key(tokens_per_minute=600), 1):
        pass
    with budgets.held(key(max_concurrency=1), 1):
        pass
    with budgets.held(key(tokens_per_minute=60), 1):
        pass


def test_callers_without_limits_are_not_counted() -> None:
    budgets = KeyBudgets(Clock())
    with budgets.held(ANYBODY, 10**6) as first, budgets.held(ANYBODY, 10**6) as second:
        first(10**12)
        second(10**12)


def test_limits_are_read_and_written_alike() -> None:
    fields = {"max_concurrency": 4, "tokens_per_minute": 60_000}
    assert parse_limits({"name": "x", **fields}).fields() == fields
    assert parse_limits({}) == NO_LIMITS


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, None, 10**13])
@pytest.mark.parametrize("name", ["max_concurrency", "tokens_per_minute"])
def test_a_limit_that_is_none_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        parse_limits({name: value})
