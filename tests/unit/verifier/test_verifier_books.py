"""What the verifier counts of its sequences, blocks and steps."""

from __future__ import annotations

from dspark.sampling import SamplingParams
from dspark.step import StepOutcome, WorkResult, WorkStatus
from dspark.verifier.step_books import StepBooks
from harness.verifier_engine import Client, Driver, FakeClock, fake_engine


def test_sequences_whose_lease_ran_out_are_counted() -> None:
    clock = FakeClock()
    engine, _ = fake_engine(clock=clock, lease_s=10.0)
    driver = Driver(engine)
    driver.admit(Client("kept", [1, 2]), Client("lost", [3, 4]))
    clock.now += 9
    driver.work(Client("kept", [1, 2]))
    clock.now += 2
    engine.reclaim()
    assert (engine.sequences.num_reclaimed, len(engine.sequences)) == (1, 1)


def test_prefix_hits_and_evictions_are_counted() -> None:
    engine, _ = fake_engine(num_blocks=16, block_size=4, num_evictable_blocks=3)
    driver, prompt = Driver(engine), list(range(10)) + list(range(10))
    driver.run(Client("first", prompt, SamplingParams(temperature=0.0, max_tokens=8)))
    queried = engine.sequences.num_queried_tokens
    assert (queried, engine.sequences.num_hit_tokens) == (len(prompt), 0)
    assert engine.pool.num_evictions > 0, "more blocks were retained than may stay"
    again = Client("again", prompt)
    driver.admit(again)
    assert engine.sequences.num_queried_tokens == 2 * len(prompt)
    assert engine.sequences.num_hit_tokens == again.cached_tokens


def test_a_step_without_work_is_no_pass() -> None:
    books = StepBooks()
    books.observe(StepOutcome(1), queue_ns=1000, step_ns=2000)
    assert (books.queue_s.count, books.step_s.count) == (1, 1)
    num_results = sum(books.results.by_status.values())
    assert (books.forward_s.count, books.num_rows.count, num_results) == (0, 0, 0)


def test_results_are_counted_by_status() -> None:
    books = StepBooks()
    results = (
        WorkResult("a", 1, WorkStatus.DONE, committed_token_ids=(1, 2), accepted_nodes=(1,)),
        WorkResult("b", 1, WorkStatus.NOT_FOUND),
    )
    books.observe(StepOutcome(1, results=results, num_rows=3, forward_ns=10**6), 0, 0)
    assert (books.num_committed_tokens, books.num_accepted_nodes) == (2, 1)
    assert books.forward_s.total == 0.001
    counts = {status: count for status, count in books.results.by_status.items() if count}
    assert counts == {WorkStatus.DONE: 1, WorkStatus.NOT_FOUND: 1}
