from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sources.suffix_index import (
    CONTEXT_LENGTHS,
    MAX_MATCH_LEN,
    MAX_OCCURRENCES,
    SuffixIndex,
)


def naive(text: list[int]) -> dict[int, int]:
    """Position after each earlier occurrence of the last token -> length of the match."""
    matches = {}
    for position in range(1, len(text)):
        length = 0
        while (
            length < min(position, MAX_MATCH_LEN)
            and text[position - 1 - length] == text[-1 - length]
        ):
            length += 1
        if length:
            matches[position] = length
    return matches


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 7))
def test_finds_what_a_plain_search_finds(text: list[int], step: int) -> None:
    index = SuffixIndex()
    for start in range(0, len(text), step):
        index.extend(text[start : start + step])
    found = {c.start: c.match_len for c in index.continuations()}
    expected = naive(text)
    if len(expected) <= MAX_OCCURRENCES:
        assert found == expected
    else:
        assert len(found) == MAX_OCCURRENCES
        assert found.items() <= expected.items()
        assert any(found) == any(expected)


def test_long_matches_come_first_then_recent_ones() -> None:
    index = SuffixIndex()
    index.extend([1, 2, 3, 9, 3, 8, 3, 7, 1, 2, 3])
    assert [(c.start, c.match_len) for c in index.continuations()] == [(3, 3), (7, 1), (5, 1)]


def test_many_occurrences_of_a_common_token_do_not_hide_a_long_match() -> None:
    index = SuffixIndex()
    index.extend([1, 2, 3, 4] + [0, 4] * (2 * MAX_OCCURRENCES) + [1, 2, 3, 4])
    best = index.continuations()[0]
    assert (best.start, best.match_len) == (4, 4)


def test_the_texts_own_end_is_no_occurrence() -> None:
    index = SuffixIndex()
    index.extend(range(max(CONTEXT_LENGTHS) + 5))
    assert index.continuations() == []
    assert SuffixIndex().continuations() == []
