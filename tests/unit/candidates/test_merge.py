from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.merge import MAX_SCORE, MIN_SCORE, MergedTrees, room
from dspark.token_tree import TokenTree, chain
from harness.token_trees import VOCAB_SIZE, token_trees

NAMES = ("recycle", "suffix", "retrieval")
three_trees = st.tuples(token_trees(), token_trees(), token_trees())


def merge(
    trees: tuple[TokenTree, ...], max_nodes: int = 64, max_depth: int = 16, vocab: int = VOCAB_SIZE
) -> TokenTree:
    merged = MergedTrees(NAMES, vocab)
    for source, tree in enumerate(trees):
        merged.add(source, tree)
    return merged.best(max_nodes, max_depth)


def paths(tree: TokenTree) -> list[tuple[int, ...]]:
    return [tuple(tree.token_ids[i] for i in tree.ancestors(node)) for node in range(len(tree))]


def test_common_prefixes_are_shared_and_name_all_proposers() -> None:
    tree = merge((chain([1, 2, 3], "a", 0.5), chain([1, 2, 9], "b", 0.5)))
    assert set(paths(tree)) == {(1,), (1, 2), (1, 2, 3), (1, 2, 9)}
    by_path = {path: node for node, path in enumerate(paths(tree))}
    assert tree.sources_of(by_path[1, 2]) == ["recycle", "suffix"]
    assert tree.sources_of(by_path[1, 2, 3]) == ["recycle"]
    assert tree.sources_of(by_path[1, 2, 9]) == ["suffix"]


def test_agreement_raises_the_score_but_never_to_certainty() -> None:
    assert merge((chain([1], "a", 0.5), chain([1], "b", 0.4))).scores == (0.7,)
    assert merge((chain([1], "a", 1.0), chain([1], "b", 1.0))).scores == (MAX_SCORE,)
    assert MAX_SCORE < 1.0


def test_equal_siblings_of_one_source_count_once() -> None:
    twice = TokenTree((5, 5, 6), (0, 0, 2), (1, 1, 1), (0.3, 0.9, 0.5), ("a",))
    tree = merge((twice,))
    assert paths(tree) == [(5,), (5, 6)]
    assert math.isclose(tree.scores[0], 0.3)


def test_nodes_without_sense_go_with_their_descendants() -> None:
    nan = math.nan
    tree = merge(
        (
            TokenTree((99, 1), (0, 1), (1, 1), (0.5, 0.5), ("a",)),
            TokenTree((2, 3, 4, 5), (0, 7, 2, 0), (1,) * 4, (0.5, 0.5, 0.5, 1.5), ("a",)),
            TokenTree((6, 7, -1, 8), (0, 0, 0, -1), (1,) * 4, (nan, 0.0, 0.5, 0.5), ("a",)),
        )
    )
    assert paths(tree) == [(2,)]


def test_uneven_lists_are_read_as_far_as_they_go_together() -> None:
    assert merge((TokenTree((1, 2, 3), (0, 1), (), (0.5,), ()),)).token_ids == (1,)


@given(three_trees, st.integers(0, 20), st.integers(0, 6))
def test_the_result_is_a_valid_tree_within_its_limits(
    trees: tuple[TokenTree, ...], max_nodes: int, max_depth: int
) -> None:
    tree = merge(trees, max_nodes, max_depth)
    tree.validate(VOCAB_SIZE)
    assert len(tree) <= max_nodes
    assert max(tree.depths, default=0) <= max_depth
    assert len(set(paths(tree))) == len(tree)
    assert all(MIN_SCORE <= score <= MAX_SCORE for score in tree.scores)


@given(three_trees)
def test_every_node_comes_from_exactly_the_sources_it_names(trees: tuple[TokenTree, ...]) -> None:
    tree = merge(trees)
    proposed = [set(paths(each)) for each in trees]
    for node, path in enumerate(paths(tree)):
        assert tree.sources_of(node) == [
            name for name, known in zip(NAMES, proposed, strict=True) if path in known
        ]
    assert set(paths(tree)) == set().union(*proposed)


@given(three_trees, st.integers(1, 20))
def test_a_smaller_budget_keeps_the_best_of_a_larger_one(
    trees: tuple[TokenTree, ...], max_nodes: int
) -> None:
    small, large = merge(trees, max_nodes), merge(trees)
    assert paths(small) == paths(large)[: len(small)]
    assert merge(trees, max_nodes) == small


@given(three_trees)
def test_best_first(trees: tuple[TokenTree, ...]) -> None:
    survivals = merge(trees).survivals
    assert list(survivals) == sorted(survivals, reverse=True)


def test_nodes_that_are_not_worth_a_row_are_left_out() -> None:
    merged = MergedTrees(NAMES, VOCAB_SIZE)
    merged.add(0, chain([1, 2, 3, 4], "a", 0.5))
    assert len(merged.best(10, 10, min_survival=0.2)) == 2
    assert len(merged.best(10, 10, min_survival=0.9)) == 0


def test_room_is_what_guesses_leave_open() -> None:
    assert room(TokenTree(), 4, 0.0) == 1.0
    # A sure path: what it leaves open is worth less than its last node.
    assert room(chain([1, 2, 3, 4], "a", 0.9), 4, 0.0) == 0.0
    # The same with nodes to spare: all that is not certain is open.
    assert math.isclose(room(chain([1, 2, 3, 4], "a", 0.9), 8, 0.0), 1.0)
    assert math.isclose(room(chain([1], "a", 0.3), 1, 0.0), 0.7 - 0.3)
