from __future__ import annotations

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.suffix import SuffixSource


def grown(source: SuffixSource, sequence: LiveSequence, *token_ids: int) -> None:
    sequence.token_ids.extend(token_ids)
    source.commit(sequence, token_ids)


def test_continues_a_repeated_text() -> None:
    source, sequence = SuffixSource(), LiveSequence("r", 0)
    grown(source, sequence, 1, 2, 3, 4, 5, 6, 9)
    grown(source, sequence, 1, 2, 3)
    (tree,) = source.propose([DraftRequest(sequence, 3, 16)], 0.0)
    assert tree.token_ids == (4, 5, 6)
    assert tree.parents == (0, 1, 2)
    assert list(tree.scores) == sorted(tree.scores)


def test_each_sequence_has_its_own_text() -> None:
    source = SuffixSource()
    first, second = LiveSequence("a", 0), LiveSequence("b", 0)
    grown(source, first, 1, 2, 1)
    grown(source, second, 1, 3, 1)
    trees = source.propose([DraftRequest(first, 1, 9), DraftRequest(second, 1, 9)], 0.0)
    assert [tree.token_ids for tree in trees] == [(2,), (3,)]


def test_two_incarnations_of_a_request_are_two_texts() -> None:
    source = SuffixSource()
    old, new = LiveSequence("r", 0), LiveSequence("r", 1)
    grown(source, old, 1, 2, 1)
    grown(source, new, 1, 3, 1)
    source.release(old, completed=False)
    (tree,) = source.propose([DraftRequest(new, 1, 9)], 0.0)
    assert tree.token_ids == (3,)


def test_a_released_sequence_leaves_nothing() -> None:
    source, sequence = SuffixSource(), LiveSequence("r", 0)
    grown(source, sequence, 1, 2, 1)
    source.release(sequence, completed=True)
    source.release(sequence, completed=True)
    (tree,) = source.propose([DraftRequest(sequence, 5, 9)], 0.0)
    assert len(tree) == 0
