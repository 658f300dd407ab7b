"""Learnt limits lose no more than they may, and drop what they can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.verifier.pruning.limits import (
    BIN_WIDTH,
    NUM_BINS,
    LearntLimits,
    best_first_bins,
)
from dspark.verifier.pruning.node_kinds import NUM_KINDS

counts = st.lists(st.integers(0, 30), min_size=6, max_size=6)


def kinds(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def taught(limits: LearntLimits, passes: int) -> LearntLimits:
    """First children are right up to margin 4; later ones never are, at margins from 5 on."""
    chance = np.random.default_rng(0)
    for _ in range(passes):
        limits.learn(
            kinds(0, 1, 1), np.array([chance.uniform(0, 4), 5.0, 9.0]), np.array([1, 0, 0])
        )
    return limits


def test_nothing_is_dropped_before_enough_was_seen() -> None:
    limits = taught(LearntLimits(max_loss=0.05), 59)
    assert not limits.is_ready
    assert not limits.hopeless(kinds(0, 1), np.array([31.0, 31.0])).any()


def test_kinds_have_limits_of_their_own() -> None:
    limits = taught(LearntLimits(max_loss=0.05), 100)
    assert limits.is_ready
    first = limits.hopeless(kinds(0, 0, 0), np.array([0.0, 3.0, 9.0]))
    assert first.tolist() == [False, False, True]
    assert limits.hopeless(kinds(1, 1), np.array([5.0, 9.0])).all()


def test_a_node_stakes_what_hangs_on_it() -> None:
    """The same nodes, but the rare right one among the later children carries a long path."""
    limits = taught(LearntLimits(max_loss=0.05), 100)
    limits.learn(kinds(1), np.array([9.0]), np.array([8]))
    assert not limits.hopeless(kinds(1), np.array([9.0])).any()


def test_what_is_no_number_is_kept() -> None:
    limits = taught(LearntLimits(max_loss=0.05), 100)
    assert not limits.hopeless(kinds(0, 0), np.array([np.nan, -np.inf])).any()
    assert limits.hopeless(kinds(0), np.array([np.inf])).all()


def test_old_passes_fade() -> None:
    limits = taught(LearntLimits(max_loss=0.05), 100)
    for _ in range(2000):
        limits.learn(kinds(0, 1), np.array([1.0, 9.0]), np.array([0, 1]))
    assert not limits.hopeless(kinds(1), np.array([9.0])).any()
    assert limits.hopeless(kinds(0), np.array([1.0])).all()


@given(counts, counts, counts, counts, st.floats(0, 40))
def test_the_budget_holds_and_no_single_step_would_be_free(
    nodes_a: list[int], nodes_b: list[int], lost_a: list[int], lost_b: list[int], budget: float
) -> None:
    nodes, lost = np.array([nodes_a, nodes_b], float), np.array([lost_a, lost_b], float)
    first = best_first_bins(nodes, lost, budget)
    spent = sum(lost[kind, first[kind] :].sum() for kind in range(2))
    assert spent <= budget
    for kind in range(2):
        # Bins before the first one whose loss is nothing would have been dropped as well.
        if first[kind] > 0 and nodes[kind, first[kind] - 1] > 0:
            assert lost[kind, first[kind] - 1] > 0


def test_the_budget_goes_where_it_drops_most() -> None:
    nodes = np.array([[0.0, 10.0], [0.0, 50.0]])
    lost = np.array([[5.0, 5.0], [5.0, 5.0]])
    assert best_first_bins(nodes, lost, 5.0).tolist() == [2, 1]
    assert best_first_bins(nodes, lost, 10.0).tolist() == [1, 1]
    assert best_first_bins(nodes, lost, 0.0).tolist() == [2, 2]


@pytest.mark.parametrize("margin", [0.0, BIN_WIDTH, NUM_BINS * BIN_WIDTH, 1e30])
def test_margins_of_any_size_are_counted(margin: float) -> None:
    limits = LearntLimits(max_loss=1.0)
    every = np.arange(NUM_KINDS)
    for _ in range(4):
        limits.learn(every, np.full(NUM_KINDS, margin), np.ones(NUM_KINDS, dtype=np.int64))
    assert limits.is_ready
    assert limits.hopeless(every, np.full(NUM_KINDS, margin)).all(), "all may be lost"
