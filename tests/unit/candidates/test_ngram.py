from __future__ import annotations

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.ngram import MAX_DEPTH, NgramSource
from dspark.candidates.sources.ngram_table import NgramOrder, NgramTable, context_hash


def table(*followers: tuple[int, int, int]) -> NgramTable:
    """One-token contexts: (token, what follows, score in 255ths)."""
    rows = sorted((context_hash((token,)), follower, score) for token, follower, score in followers)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return NgramTable([NgramOrder(1, 1, *columns)], "digest")


def propose(source: NgramSource, max_nodes: int, max_depth: int, *token_ids: int):
    sequence = LiveSequence("r", 1, token_ids=list(token_ids))
    (tree,) = source.propose([DraftRequest(sequence, max_nodes, max_depth)], 0.0)
    return tree


CYCLE = NgramSource(table((1, 2, 204), (2, 3, 204), (3, 1, 204)))


def test_goes_on_from_the_last_token() -> None:
    tree = propose(CYCLE, 4, 9, 9, 9, 2)
    assert tree.token_ids == (3, 1, 2, 3)
    assert tree.parents == (0, 1, 2, 3)
    assert tree.scores == (0.8,) * 4
    assert tree.source_names == ("ngram",)


def test_keeps_within_the_depth_and_the_nodes_that_are_asked_for() -> None:
    assert len(propose(CYCLE, 3, 9, 1)) == 3
    assert len(propose(CYCLE, 99, 2, 1)) == 2
    assert len(propose(CYCLE, 99, 99, 1)) == MAX_DEPTH


def test_has_no_guess_where_the_table_has_none() -> None:
    assert not propose(CYCLE, 4, 9, 7)


def test_leaves_out_what_is_next_to_never_right() -> None:
    assert not propose(NgramSource(table((1, 2, 1))), 4, 9, 1)
