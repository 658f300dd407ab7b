"""What a grammar leaves of a tree, and what it adds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.token_tree import TokenTree, chain
from dspark.verifier.structure.tree_fit import FORCED, FittedTree, fit_tree
from harness.finite_language import FiniteMatcher
from harness.scripted_drafters import tree_of
from harness.token_trees import token_trees

VOCAB, END = 6, 5
WORDS = st.lists(
    st.lists(st.integers(0, END - 1), min_size=1, max_size=6).map(tuple), min_size=1, max_size=6
)


def fit(
    words: list[tuple[int, ...]], tree: TokenTree, max_forced: int = 0, max_depth: int = 9
) -> FittedTree:
    matcher = FiniteMatcher(words, END)
    fitted = fit_tree(
        tree, matcher, max_forced=max_forced, max_depth=max_depth, end_ids=frozenset({END})
    )
    assert matcher.text == ()
    return fitted


def paths(tree: TokenTree) -> list[tuple[int, ...]]:
    """The tokens from the anchor down to each node."""
    return [tuple(tree.token_ids[n] for n in tree.ancestors(node)) for node in range(len(tree))]


def test_a_forbidden_node_goes_with_what_grows_from_it() -> None:
    tree = tree_of([1, 2, 3, 4, 2], [0, 1, 2, 0, 4])
    fitted = fit([(1, 3), (4, 2), (4, 1)], tree)
    assert paths(fitted.tree) == [(1,), (4,), (4, 2)]
    assert fitted.origins == (0, 3, 4)
    assert fitted.tree.source_names == tree.source_names


def test_nothing_grows_from_an_end() -> None:
    fitted = fit([(1,), (1, 2)], tree_of([1, END, 2, END], [0, 1, 2, 1]))
    assert paths(fitted.tree) == [(1,), (1, END)]


def test_forced_tokens_follow_the_anchor_and_the_nodes() -> None:
    fitted = fit([(1, 2, 3), (1, 2, 4, 0, 0)], chain([1, 2, 4], "s"), max_forced=9)
    assert paths(fitted.tree) == [(1,), (1, 2), (1, 2, 4), (1, 2, 4, 0), (1, 2, 4, 0, 0)]
    assert fitted.origins == (0, 1, 2, FORCED, FORCED)


def test_forced_tokens_without_a_tree_end_where_there_is_a_choice() -> None:
    assert paths(fit([(1, 2, 3), (1, 2, 4)], TokenTree(), max_forced=9).tree) == [(1,), (1, 2)]


def test_forced_tokens_keep_to_their_limits() -> None:
    word = (1, 2, 3, 4, 0, 1)
    assert len(fit([word], TokenTree(), max_forced=3).tree) == 3
    assert len(fit([word], TokenTree(), max_forced=9, max_depth=2).tree) == 2
    assert len(fit([word], chain([1, 2, 3], "s"), max_forced=1).tree) == 4
    assert len(fit([word], chain([1, 2], "s"), max_forced=0).tree) == 2


def test_nothing_is_forced_behind_a_node_that_hardly_survives() -> None:
    words = [(1, 2, 3), (4, 2, 3)]
    assert len(fit(words, chain([1], "s", score=0.1), max_forced=9).tree) == 1
    assert len(fit(words, chain([1], "s", score=0.9), max_forced=9).tree) == 3


@given(WORDS, token_trees(max_nodes=14, vocab_size=VOCAB), st.integers(0, 6))
def test_a_fitted_tree_has_what_may_be_accepted_and_nothing_else(
    words: list[tuple[int, ...]], tree: TokenTree, max_forced: int
) -> None:
    fitted = fit(words, tree, max_forced)
    fitted.tree.validate(VOCAB)
    allowed = {word[:n] for word in words for n in range(1, len(word) + 1)}
    ended = {(*word, END) for word in words}
    complete = {w for w in words if not any(o != w and o[: len(w)] == w for o in words)}
    given, found = set(paths(tree)), set(paths(fitted.tree))
    assert len(found) == len(fitted.tree), "a node is there twice"
    usable = (given & allowed) | {path for path in given & ended if path[:-1] not in complete}
    assert usable <= found <= allowed | ended
    assert len(found - given) == fitted.origins.count(FORCED) <= max_forced
    for node, origin in enumerate(fitted.origins):
        if origin != FORCED:
            assert paths(tree)[origin] == paths(fitted.tree)[node]
