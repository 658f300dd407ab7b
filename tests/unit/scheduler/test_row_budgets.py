"""No step takes longer than a full one of the fastest verifier."""

from __future__ import annotations

from dspark.scheduler.pace import Speed
from dspark.scheduler.row_budgets import row_budgets

FAST = Speed(lambda rows: 10.0 + 2.0 * rows, max_rows=500)


def test_a_slow_verifier_has_shorter_steps() -> None:
    slow = Speed(lambda rows: 40.0 + 8.0 * rows, max_rows=500)
    budgets = row_budgets({"fast": FAST, "slow": slow}, least=60)
    assert budgets == {"fast": 500, "slow": 121}
    assert slow.pass_ms(121) <= FAST.pass_ms(500) < slow.pass_ms(122)


def test_there_is_always_room_for_the_requests_that_decode() -> None:
    snail = Speed(lambda rows: 100.0 * rows, max_rows=500)
    small = Speed(lambda rows: 100.0 * rows, max_rows=40)
    budgets = row_budgets({"fast": FAST, "snail": snail, "small": small}, least=60)
    assert budgets == {"fast": 500, "snail": 60, "small": 40}


def test_equal_verifiers_keep_their_limit() -> None:
    assert row_budgets({"a": FAST, "b": FAST}, least=60) == {"a": 500, "b": 500}
    assert row_budgets({}, least=60) == {}
