"""Interactive first, and a share for batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.request_class import RequestClass
from dspark.scheduler.fairness.class_turns import MAX_CREDIT, ClassTurns

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH
BOTH = (INTERACTIVE, BATCH)


def test_batch_goes_where_nobody_else_waits() -> None:
    turns = ClassTurns(0.1)
    assert turns.first([BATCH]) is BATCH
    turns.took(BATCH, 5000, [BATCH])
    assert turns.first(BOTH) is INTERACTIVE
    assert turns.first([INTERACTIVE]) is INTERACTIVE


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=8))
def test_batch_gets_its_share_while_both_wait(share: float, costs: list[int]) -> None:
    turns = ClassTurns(share)
    used = dict.fromkeys(RequestClass, 0)
    for index in range(2000):
        turn = turns.first(BOTH)
        cost = costs[index % len(costs)]
        turns.took(turn, cost, BOTH)
        used[turn] += cost
    assert used[BATCH] >= share * sum(used.values()) - 2 * max(costs)
    assert used[BATCH] <= share * sum(used.values()) + 2 * max(costs)


def test_what_batch_is_owed_has_a_bound_and_ends_with_its_waiting() -> None:
    turns = ClassTurns(0.5)
    for _ in range(100):
        turns.took(INTERACTIVE, 1000, BOTH)
    turns.took(BATCH, MAX_CREDIT, BOTH)
    assert turns.first(BOTH) is INTERACTIVE
    turns.took(INTERACTIVE, 1000, BOTH)
    assert turns.first(BOTH) is BATCH
    turns.took(INTERACTIVE, 1000, [INTERACTIVE])
    assert turns.first(BOTH) is INTERACTIVE
