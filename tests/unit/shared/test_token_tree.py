from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.errors import InvalidArgument
from dspark.token_tree import TokenTree, chain
from harness.token_trees import VOCAB_SIZE, token_trees


def example() -> TokenTree:
    """Anchor with children 5 and 6; 5 has children 7 and 8; 8 has child 9."""
    return TokenTree(
        token_ids=(5, 6, 7, 8, 9),
        parents=(0, 0, 1, 1, 4),
        source_masks=(1, 2, 3, 1, 2),
        scores=(0.5, 0.25, 0.5, 0.5, 0.5),
        source_names=("suffix", "recycle"),
    )


def test_depths_survivals_and_children_of_a_known_tree() -> None:
    tree = example()
    assert tree.depths == (1, 1, 2, 2, 3)
    assert tree.survivals == (0.5, 0.25, 0.25, 0.25, 0.125)
    assert tree.children == ({5: 1, 6: 2}, {7: 3, 8: 4}, {}, {}, {9: 5}, {})
    assert tree.ancestors(4) == [0, 3, 4]
    assert tree.sources_of(2) == ["suffix", "recycle"]
    assert tree.sources_of(4) == ["recycle"]


def test_the_empty_tree_is_valid_and_has_only_the_anchor() -> None:
    tree = TokenTree()
    tree.validate(vocab_size=1)
    assert len(tree) == 0
    assert tree.children == ({},)


def test_the_first_of_two_equal_siblings_is_the_child() -> None:
    tree = dataclasses.replace(example(), token_ids=(5, 5, 7, 8, 9))
    assert tree.children[0] == {5: 1}


def test_chain_is_a_tree_of_width_one() -> None:
    tree = chain([3, 1, 4], "suffix", score=0.5)
    assert tree.parents == (0, 1, 2)
    assert tree.depths == (1, 2, 3)
    assert tree.survivals == (0.5, 0.25, 0.125)
    assert [tree.sources_of(node) for node in range(3)] == [["suffix"]] * 3
    assert chain([], "suffix").token_ids == ()


@given(token_trees())
def test_every_generated_tree_validates(tree: TokenTree) -> None:
    tree.validate(VOCAB_SIZE)


@given(token_trees(min_nodes=1), st.data())
def test_ancestors_lead_from_the_anchor_to_the_node(tree: TokenTree, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(tree) - 1))
    path = tree.ancestors(node)
    assert path[-1] == node
    assert len(path) == tree.depths[node]
    assert tree.parents[path[0]] == 0
    assert all(tree.parents[b] == a + 1 for a, b in itertools.pairwise(path))
    assert tree.survivals[node] == pytest.approx(math.prod(tree.scores[n] for n in path))


@given(token_trees())
def test_survival_never_grows_with_depth(tree: TokenTree) -> None:
    for node, parent in enumerate(tree.parents):
        assert parent == 0 or tree.survivals[node] <= tree.survivals[parent - 1]


@given(token_trees(), st.data())
def test_a_subtree_closed_under_parents_keeps_paths(tree: TokenTree, data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.integers(0, len(tree) - 1)) if len(tree) else st.just(set()))
    keep = sorted({ancestor for node in wanted for ancestor in tree.ancestors(node)})
    part = tree.subtree(keep)
    part.validate(VOCAB_SIZE)
    for new, old in enumerate(keep):
        assert [part.token_ids[n] for n in part.ancestors(new)] == [
            tree.token_ids[n] for n in tree.ancestors(old)
        ]
        assert part.sources_of(new) == tree.sources_of(old)


def test_a_subtree_without_a_parent_is_refused() -> None:
    with pytest.raises(ValueError, match="together with its parent"):
        example().subtree([4])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parents": (0, 0, 1, 1)}, "differ in length"),
        ({"source_masks": ()}, "differ in length"),
        ({"scores": (0.5,)}, "differ in length"),
        ({"parents": (1, 0, 1, 1, 4)}, "tree.parents"),
        ({"parents": (0, 0, 1, 1, 6)}, "tree.parents"),
        ({"parents": (0, 0, -1, 1, 4)}, "tree.parents"),
        ({"token_ids": (5, 6, 7, 8, VOCAB_SIZE)}, "tree.token_ids"),
        ({"token_ids": (-1, 6, 7, 8, 9)}, "tree.token_ids"),
    ],
)
def test_validate_names_what_is_wrong(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        dataclasses.replace(example(), **change).validate(VOCAB_SIZE)
