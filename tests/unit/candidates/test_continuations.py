from __future__ import annotations

import math

from dspark.candidates.sources.continuations import Continuation, tree_from_continuations
from dspark.token_tree import TokenTree

ODDS = (0.0, 1.0, 3.0)


def build(continuations: list[Continuation], nodes: int = 10, depth: int = 10) -> TokenTree:
    return tree_from_continuations(
        continuations, ODDS, source="s", max_nodes=nodes, max_depth=depth
    )


def test_odds_become_a_probability_and_grow_with_the_match() -> None:
    tree = build([Continuation((7, 8, 9), 1, 1)])
    assert tree.token_ids == (8, 9)
    assert tree.scores == (0.5, 0.75)
    assert tree.parents == (0, 1)


def test_branches_share_by_weight() -> None:
    tree = build([Continuation((1, 5), 0, 1, count=3), Continuation((2, 6), 0, 1)])
    assert tree.token_ids[0] == 1
    first = {
        t: s for t, s, p in zip(tree.token_ids, tree.scores, tree.parents, strict=True) if p == 0
    }
    assert math.isclose(first[1], 3 / 5)
    assert math.isclose(first[2], 1 / 5)


def test_equal_prefixes_are_one_branch() -> None:
    tree = build([Continuation((1, 5), 0, 1), Continuation((1, 6), 0, 1)])
    assert sorted(tree.token_ids) == [1, 5, 6]
    assert math.isclose(tree.scores[0], 2 / 3)


def test_limits_hold_and_nothing_gives_nothing() -> None:
    long = [Continuation(tuple(range(100)), 0, 1)]
    assert len(build(long, nodes=4)) == 4
    assert len(build(long, depth=3)) == 3
    assert len(build([])) == 0
    assert len(build([Continuation((1, 2), 2, 1)])) == 0
