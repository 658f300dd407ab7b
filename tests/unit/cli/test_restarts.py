"""When a service that ended may start again."""

from __future__ import annotations

from dspark.cli.supervision.restarts import FIRST_PAUSE_S, LONGEST_PAUSE_S, RestartBudget


def test_pauses_double_and_then_it_gives_up() -> None:
    budget = RestartBudget(endless=False)
    pauses = [budget.pause_after_end(float(second)) for second in range(6)]
    assert pauses[:5] == [FIRST_PAUSE_S * 2**n for n in range(5)]
    assert pauses[5] is None


def test_an_old_end_is_forgotten() -> None:
    budget = RestartBudget(endless=False)
    pauses = [budget.pause_after_end(1000.0 * n) for n in range(50)]
    assert pauses == [FIRST_PAUSE_S] * 50


def test_an_endless_budget_never_gives_up() -> None:
    budget = RestartBudget(endless=True)
    pauses = [budget.pause_after_end(float(n)) for n in range(100)]
    assert None not in pauses
    assert pauses[-1] == LONGEST_PAUSE_S
