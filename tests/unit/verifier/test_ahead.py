"""What is expected of the next step, and which rows of a pass ahead a step may use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspark.step import SequenceAdmission, SequenceWork
from dspark.token_tree import TokenTree, chain
from dspark.verifier.admission import Limits, new_sequence
from dspark.verifier.ahead import AheadPass, expected_work, usable_rows
from dspark.verifier.scheduled_work import ScheduledWork
from dspark.verifier.sequence import Sequence
from harness.verifier_engine import GREEDY

LIMITS = Limits(vocab_size=16, max_model_len=64, max_pool_tokens=64, eos_token_ids=frozenset())


def sequence(name: str, num_computed: int = 4) -> Sequence:
    """Five tokens."""
    admission = SequenceAdmission(name, 1, (1, 2, 3, 4, 5), 3, GREEDY)
    made = new_sequence(admission, LIMITS, block_size=4)
    made.num_computed = num_computed
    return made


def entry(of: Sequence, *, tree: TokenTree | None = None) -> ScheduledWork:
    work = SequenceWork(of.request_id, of.epoch, of.num_tokens, 1)
    return ScheduledWork(of, work, of.num_computed, of.num_tokens, tree or TokenTree())


def test_a_sequence_with_one_pending_token_is_expected() -> None:
    one, prompt, done = sequence("one"), sequence("prompt", 2), sequence("done", 5)
    assert expected_work([prompt, one, done]) == (SequenceWork("one", 1, 5, 1),)


def test_equal_entries_use_their_own_rows_in_any_order() -> None:
    a, b, c = sequence("a"), sequence("b"), sequence("c")
    ahead = [entry(a), entry(b)]
    assert usable_rows(ahead, [entry(a), entry(b)], whole_only=False) == [0, 1]
    assert usable_rows(ahead, [entry(c), entry(b), entry(a)], whole_only=False) == [None, 1, 0]
    assert usable_rows(ahead, [], whole_only=False) == []


def test_where_neighbours_matter_all_is_used_or_nothing() -> None:
    a, b, c = sequence("a"), sequence("b"), sequence("c")
    ahead = [entry(a), entry(b)]
    assert usable_rows(ahead, [entry(a), entry(b)], whole_only=True) == [0, 1]
    for others in ([entry(b), entry(a)], [entry(a)], [entry(a), entry(b), entry(c)]):
        assert usable_rows(ahead, others, whole_only=True) == [None] * len(others)


@pytest.mark.parametrize(
    "other",
    [
        lambda a: entry(a, tree=chain([1, 2], "x")),
        lambda a: replace(entry(a), start=3),
        lambda a: replace(entry(a), end=6),
        # Another incarnation of the request has the same tokens and perhaps other blocks.
        lambda a: entry(sequence("a")),
    ],
)
def test_what_is_not_the_same_is_not_used(other) -> None:  # type: ignore[no-untyped-def]
    a = sequence("a")
    assert usable_rows([entry(a)], [other(a)], whole_only=False) == [None]


@pytest.mark.parametrize(("moment", "over"), [(50, 0), (100, 0), (130, 30), (180, 80), (500, 80)])
def test_the_part_of_a_pass_that_was_over_at_a_moment(moment: int, over: int) -> None:
    ahead = AheadPass((), np.empty((0, 16), np.float32), started_ns=100, ended_ns=180)
    assert (ahead.forward_ns, ahead.ns_before(moment)) == (80, over)
