"""Accepted nodes by position and by who proposed them."""

from __future__ import annotations

import pytest

from dspark.scheduler.drafting_books import NodesBySource
from dspark.scheduler.stats import MAX_POSITIONS, AcceptedNodes
from dspark.token_tree import TokenTree, chain


@pytest.mark.parametrize("lengths", [[], [1, 3, 3], [MAX_POSITIONS], [MAX_POSITIONS + 5, 2]])
def test_positions_add_up_to_the_accepted_nodes(lengths: list[int]) -> None:
    accepted = AcceptedNodes()
    for length in lengths:
        nodes = tuple(range(1, length + 1))
        accepted.add(chain([7] * length, "suffix"), nodes)
    positions = accepted.by_position()
    assert len(positions) == MAX_POSITIONS + 1
    assert sum(positions) == sum(lengths)
    for position, count in enumerate(positions[:-1]):
        assert count == sum(length > position for length in lengths)


def test_a_round_without_accepted_nodes_counts_nothing() -> None:
    accepted = AcceptedNodes()
    accepted.add(chain([7], "suffix"), ())
    assert not any(accepted.by_position()) and not accepted.sources.by_source()


def test_nodes_of_two_sources_are_nobodys_own() -> None:
    nodes = NodesBySource()
    nodes.add(("a", "b"), (0b01, 0b11, 0b11, 0b10))
    nodes.add(("b", "c"), (0b01, 0b10))
    assert nodes.by_source() == {"a": 3, "b": 4, "c": 1}
    assert nodes.by_only_source() == {"a": 1, "b": 2, "c": 1}


def test_accepted_nodes_count_for_the_sources_that_proposed_them() -> None:
    tree = TokenTree((1, 2, 3), (0, 0, 2), (0b01, 0b11, 0b10), (1.0, 1.0, 1.0), ("a", "b"))
    accepted = AcceptedNodes()
    accepted.add(tree, (2, 3))
    assert accepted.sources.by_source() == {"a": 1, "b": 2}
    assert accepted.sources.by_only_source() == {"a": 0, "b": 1}
