from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.best_first import grow

Children = dict[str, list[tuple[int, float, str]]]


def expand_from(children: Children):
    return lambda state, depth: children.get(state, [])


def test_takes_the_paths_of_highest_survival_first() -> None:
    children: Children = {
        "": [(1, 0.5, "a"), (2, 0.4, "b")],
        "a": [(3, 0.5, "aa")],
        "b": [(4, 0.9, "ba")],
    }
    grown = grow("", expand_from(children), max_nodes=4, max_depth=9)
    assert grown.token_ids == [1, 2, 4, 3]
    assert grown.parents == [0, 0, 2, 1]
    assert grown.scores == [0.5, 0.4, 0.9, 0.5]
    assert grown.states == ["a", "b", "ba", "aa"]


def test_equal_survivals_go_in_the_order_of_discovery() -> None:
    children: Children = {"": [(9, 0.5, "x"), (3, 0.5, "y"), (7, 0.5, "z")]}
    assert grow("", expand_from(children), max_nodes=2, max_depth=1).token_ids == [9, 3]


def test_no_node_below_the_largest_depth_is_even_expanded() -> None:
    expanded: list[int] = []

    def expand(state: int, depth: int) -> list[tuple[int, float, int]]:
        expanded.append(depth)
        return [(state, 0.9, state + 1)]

    assert len(grow(0, expand, max_nodes=10, max_depth=3).token_ids) == 3
    assert expanded == [0, 1, 2]
    assert grow(0, expand, max_nodes=10, max_depth=0).token_ids == []
    assert grow(0, expand, max_nodes=0, max_depth=3).token_ids == []


@given(
    st.integers(0, 20), st.integers(0, 5), st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3)
)
def test_survivals_never_rise_and_parents_come_first(
    max_nodes: int, max_depth: int, scores: list[float]
) -> None:
    scores.sort(reverse=True)
    grown = grow(
        0,
        lambda state, depth: [(rank, score, state + 1) for rank, score in enumerate(scores)],
        max_nodes=max_nodes,
        max_depth=max_depth,
    )
    survivals: list[float] = []
    for node, (parent, score) in enumerate(zip(grown.parents, grown.scores, strict=True)):
        assert parent <= node
        survivals.append(score * (survivals[parent - 1] if parent else 1.0))
    assert all(a >= b or math.isclose(a, b) for a, b in pairwise(survivals))
    available = sum(3**depth for depth in range(1, max_depth + 1))
    assert len(grown.token_ids) == min(max_nodes, available)


def test_children_are_drawn_only_as_far_as_they_are_needed() -> None:
    drawn: list[int] = []

    def expand(state: int, depth: int) -> Iterator[tuple[int, float, int]]:
        for rank in range(100):
            drawn.append(rank)
            yield rank, 0.5 / (rank + 1), rank

    grow(0, expand, max_nodes=3, max_depth=1)
    assert drawn == [0, 1, 2, 3]
