from __future__ import annotations

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.recycle import (
    MAX_TENANTS,
    MAX_TOKEN_ID,
    RANK_SCORES,
    RecycleSource,
    SuccessorTable,
)
from dspark.proposal import Successors
from dspark.token_tree import TokenTree

TOP_K = RecycleSource.top_k


def top(first: int) -> tuple[int, ...]:
    """A row of successors: first, first + 1, ..."""
    return tuple(range(first, first + TOP_K))


def propose(source: RecycleSource, anchor: int, nodes: int = 15, salt: str = "") -> TokenTree:
    request = DraftRequest(LiveSequence("r", 0, salt, 1, [0, anchor]), nodes, 16)
    (tree,) = source.propose([request], 0.0)
    return tree


def test_ranks_are_siblings_in_order() -> None:
    source = RecycleSource()
    source.observe(Successors((5,), top(100)))
    tree = propose(source, 5)
    assert tree.token_ids == top(100)
    assert tree.parents == (0,) * TOP_K
    assert tree.scores == RANK_SCORES


def test_the_tree_goes_on_from_known_successors() -> None:
    source = RecycleSource()
    source.observe(Successors((5, 100), top(100) + top(200)))
    tree = propose(source, 5, nodes=2)
    by_token = dict(zip(tree.token_ids, tree.parents, strict=True))
    assert by_token[100] == 0
    tree = propose(source, 5, nodes=30)
    assert tree.parents[tree.token_ids.index(200)] == tree.token_ids.index(100) + 1


def test_a_cycle_ends_at_the_limits() -> None:
    source = RecycleSource()
    source.observe(Successors((5,), (5,) * TOP_K))
    request = DraftRequest(LiveSequence("r", 0, "", 1, [5]), 50, 4)
    (tree,) = source.propose([request], 0.0)
    assert max(tree.depths) <= 4
    assert len(tree) == 50


def test_later_observations_overwrite() -> None:
    source = RecycleSource()
    source.observe(Successors((5,), top(100)))
    source.observe(Successors((5, 6, 5), top(200) + top(300) + top(400)))
    assert propose(source, 5, nodes=1).token_ids == (400,)
    assert propose(source, 6, nodes=1).token_ids == (300,)


def test_an_unknown_token_has_no_tree() -> None:
    source = RecycleSource()
    assert propose(source, 5) == TokenTree()
    source.observe(Successors((7,), top(1)))
    for anchor in (5, 100, MAX_TOKEN_ID + 1):
        assert len(propose(source, anchor)) == 0


def test_tenants_do_not_see_each_other() -> None:
    source = RecycleSource()
    source.observe(Successors((5,), top(100), cache_salt="a"))
    assert len(propose(source, 5, salt="a")) > 0
    for salt in ("", "b", "a "):
        assert len(propose(source, 5, salt=salt)) == 0


def test_tables_of_too_many_tenants_are_dropped_oldest_first() -> None:
    source = RecycleSource()
    for tenant in range(MAX_TENANTS + 1):
        source.observe(Successors((5,), top(100), cache_salt=str(tenant)))
        source.observe(Successors((6,), top(100), cache_salt="0"))
    assert len(propose(source, 5, salt="0")) > 0
    assert len(propose(source, 5, salt="1")) == 0
    assert len(propose(source, 5, salt="2")) > 0


def test_fewer_successors_than_asked_for_leave_the_other_ranks_unknown() -> None:
    table = SuccessorTable(TOP_K)
    table.observe((5,), top(100))
    table.observe((5,), (1, 2))
    assert table.successors(5) == [1, 2] + [-1] * (TOP_K - 2)


def test_more_successors_than_asked_for_are_cut() -> None:
    table = SuccessorTable(2)
    table.observe((5, 6), (1, 2, 3, 4, 5, 6))
    assert table.successors(5) == [1, 2]
    assert table.successors(6) == [4, 5]


def test_ids_beyond_every_vocabulary_do_not_grow_the_table() -> None:
    table = SuccessorTable(2)
    table.observe((MAX_TOKEN_ID, 5, 6), (1, 2, 3, MAX_TOKEN_ID, 7, 8))
    assert table.successors(5) == [-1, -1]
    assert table.successors(6) == [7, 8]
    assert table.successors(MAX_TOKEN_ID) == []


def test_rows_without_successors_teach_nothing() -> None:
    table = SuccessorTable(2)
    table.observe((), ())
    assert table.successors(0) == []
