"""What is counted of each step adds up to what the steps were."""

from __future__ import annotations

from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_timing import StepTiming
from dspark.step import SequenceWork, StepOutcome, StepPlan, WorkResult, WorkStatus
from dspark.token_tree import chain

TIMING = StepTiming(propose_ms=1.0, verify_ms=5.0, forward_ms=4.0, overhead_ms=2.0)


def outcome(*results: WorkResult, num_rows: int = 1) -> StepOutcome:
    return StepOutcome(1, results=results, num_rows=num_rows)


def test_a_step_is_counted_once_in_each_distribution() -> None:
    books = StepBooks()
    work = (
        SequenceWork("decode", 1, 5, 1, chain([1, 2, 3], "suffix")),
        SequenceWork("plain", 1, 5, 1),
        SequenceWork("prompt", 1, 20, 20),
    )
    results = (
        WorkResult("decode", 1, WorkStatus.DONE, committed_token_ids=(1, 2), accepted_nodes=(1,)),
        WorkResult("plain", 1, WorkStatus.DONE, committed_token_ids=(7,)),
        WorkResult("prompt", 1, WorkStatus.NO_BLOCKS),
    )
    books.observe(TIMING, StepPlan("s", 1, work=work), outcome(*results, num_rows=25))
    assert (books.num_steps, books.num_requests.total, books.num_rows.total) == (1, 3, 25)
    assert (books.tree_nodes.count, books.tree_nodes.total) == (1, 3)
    assert books.num_tokens.total == 20 + 3
    parts = (books.propose_s, books.verify_s, books.forward_s, books.overhead_s)
    assert [part.total for part in parts] == [0.001, 0.005, 0.004, 0.002]
    assert books.results.by_status == {
        WorkStatus.DONE: 2,
        WorkStatus.STALE: 0,
        WorkStatus.NOT_FOUND: 0,
        WorkStatus.NO_BLOCKS: 1,
    }


def test_a_step_that_only_frees_is_no_pass() -> None:
    books = StepBooks()
    books.observe(TIMING, StepPlan("s", 1), outcome(num_rows=0))
    assert (books.num_steps, books.overhead_s.count) == (1, 1)
    assert (books.forward_s.count, books.num_rows.count, books.num_requests.count) == (0, 0, 0)


def test_verifiers_share_a_distribution_of_tokens() -> None:
    first = StepBooks()
    second = StepBooks(first.num_tokens)
    result = WorkResult("a", 1, WorkStatus.DONE, committed_token_ids=(1,))
    plan = StepPlan("s", 1, work=(SequenceWork("a", 1, 5, 1),))
    for books in (first, second):
        books.observe(TIMING, plan, outcome(result))
    assert (first.num_tokens.count, second.num_steps) == (2, 1)
