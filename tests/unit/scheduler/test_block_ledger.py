"""Two waves never plan to spend the same free blocks."""

from __future__ import annotations

from dspark.scheduler.block_ledger import BlockLedger


def test_one_wave_may_spend_all_that_is_free() -> None:
    ledger = BlockLedger(10)
    ledger.hold(0, 4)
    assert ledger.free_for(0) == 10


def test_what_one_wave_holds_is_not_free_for_the_other() -> None:
    ledger = BlockLedger(10)
    ledger.hold(0, 4)
    assert ledger.free_for(1) == 6
    ledger.hold(0, 1)
    assert ledger.free_for(1) == 9
    ledger.hold(0, 12)
    assert ledger.free_for(1) == 0


def test_an_outcome_gives_back_what_was_held() -> None:
    ledger = BlockLedger(10)
    ledger.hold(0, 4)
    ledger.sent(0)
    ledger.settle(0, 7)
    assert ledger.reported == ledger.free_for(0) == ledger.free_for(1) == 7


def test_a_step_without_an_outcome_gives_it_back_as_well() -> None:
    ledger = BlockLedger(10)
    ledger.hold(0, 4)
    ledger.sent(0)
    ledger.drop(0)
    assert ledger.reported == ledger.free_for(1) == 10


def test_the_report_of_an_earlier_step_that_comes_later_is_old_news() -> None:
    ledger = BlockLedger(10)
    ledger.sent(0)
    ledger.sent(1)
    ledger.settle(1, 5)
    ledger.settle(0, 8)
    assert ledger.reported == 5
    ledger.sent(0)
    ledger.settle(0, 3)
    assert ledger.reported == 3
