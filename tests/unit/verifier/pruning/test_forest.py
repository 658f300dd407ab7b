"""Which rows are nodes, whose children they are, and what leaves with a hopeless one."""

from __future__ import annotations

import math

import numpy as np

from dspark.sampling import SamplingParams
from dspark.step import SequenceAdmission, SequenceWork
from dspark.token_tree import TokenTree
from dspark.verifier.admission import Limits, new_sequence
from dspark.verifier.pruning.forest import Forest, forest_of
from dspark.verifier.pruning.node_priors import NUM_PRIORS, priors_of
from dspark.verifier.scheduled_work import ScheduledWork
from harness.scripted_drafters import tree_of

LIMITS = Limits(1000, 1000, 1000, frozenset())


def entry(name: str, start: int, end: int, tree: TokenTree, temperature: float) -> ScheduledWork:
    sampling = SamplingParams(temperature=temperature, seed=end, max_tokens=50)
    admission = SequenceAdmission(name, 0, tuple(range(end)), 1, sampling)
    work = SequenceWork(name, 0, end, end, tree)
    scheduled = ScheduledWork(new_sequence(admission, LIMITS, 4), work, start, end)
    scheduled.set_tree(tree, max_nodes=100)
    return scheduled


def forest() -> Forest:
    entries = [
        entry("a", 0, 3, tree_of([10, 11, 12], [0, 1, 1]), 0.0),
        entry("b", 4, 5, TokenTree(), 0.0),
        entry("c", 6, 8, tree_of([20, 21, 22, 23], [0, 0, 2, 3]), 0.5),
    ]
    return forest_of(entries)


def test_rows_and_parents() -> None:
    found = forest()
    assert found.num_rows == (3 + 3) + 1 + (2 + 4)
    assert found.rows.tolist() == [3, 4, 5, 9, 10, 11, 12]
    assert found.token_ids.tolist() == [10, 11, 12, 20, 21, 22, 23]
    assert [parent.row for parent in found.parents] == [2, 3, 8, 10, 11]
    # What a row predicts is at the position after its own.
    assert [parent.position for parent in found.parents] == [3, 4, 8, 9, 10]
    assert [parent.sampling.temperature for parent in found.parents] == [0.0, 0.0, 0.5, 0.5, 0.5]
    assert found.parent_places.tolist() == [0, 1, 1, 2, 2, 3, 4]
    assert found.parent_nodes.tolist() == [-1, 0, 0, -1, -1, 4, 5]


def test_descendants_leave_with_a_hopeless_node() -> None:
    found = forest()
    stays = found.closed(np.array([False, False, True, False, True, False, False]))
    assert stays.tolist() == [True, True, False, True, False, False, False]
    assert found.rows_without(stays).tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    nothing = found.closed(np.ones(len(found), dtype=np.bool_))
    assert found.rows_without(nothing).tolist() == [0, 1, 2, 6, 7, 8]


def test_priors_are_surprises_and_places() -> None:
    tree = TokenTree((1, 2, 3), (0, 0, 2), (1, 1, 1), (0.5, 0.25, 0.0), ("s",))
    nats = math.log(2)
    expected = [
        (nats, nats / 3, 0.0, 0.0, 1.0),
        (2 * nats, 2 * nats / 3, 1.0, 0.0, 1.0),
        # A score of nothing is a large surprise, not an endless one.
        (math.log(1e4), (2 * nats + math.log(1e4)) / 3, 0.0, 1.0, 1.0),
    ]
    np.testing.assert_allclose(priors_of(tree, is_drawn=True), expected)
    assert [prior[-1] for prior in priors_of(tree, is_drawn=False)] == [0.0] * 3
    assert forest().priors[:, 2:].tolist() == [
        [0, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 1],
        [1, 0, 1],
        [0, 1, 1],
        [0, 1, 1],
    ]


def test_a_pass_without_trees() -> None:
    found = forest_of([entry("a", 0, 3, TokenTree(), 0.0)])
    assert (len(found), found.num_rows, found.parents) == (0, 3, ())
    assert found.priors.shape == (0, NUM_PRIORS)
