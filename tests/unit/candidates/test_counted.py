from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sources.counted import (
    MAX_CONTINUATIONS,
    MAX_COUNT,
    MAX_TOKENS,
    Counted,
    count_one,
    pack,
    unpack,
)

DIGEST = b"12345678"
continuations = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=MAX_TOKENS).map(tuple),
        st.integers(1, MAX_COUNT),
    ),
    max_size=MAX_CONTINUATIONS,
)


@given(continuations)
def test_packing_keeps_everything(counted: Counted) -> None:
    assert unpack(DIGEST, pack(DIGEST, counted)) == counted


def test_the_value_of_another_context_is_none_of_ours() -> None:
    assert unpack(b"87654321", pack(DIGEST, [((1, 2), 3)])) == []


@given(continuations.filter(bool), st.data())
def test_a_truncated_value_is_refused_or_loses_whole_entries(
    counted: Counted, data: st.DataObject
) -> None:
    value = pack(DIGEST, counted)
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    try:
        assert unpack(DIGEST, cut) == counted[: len(unpack(DIGEST, cut))]
    except ValueError:
        return


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_makes_sense(value: bytes) -> None:
    header = pack(DIGEST, [])
    for garbage in (value, header + value):
        try:
            counted = unpack(DIGEST, garbage)
        except ValueError:
            continue
        assert len(counted) <= MAX_CONTINUATIONS
        assert all(1 <= len(tokens) <= MAX_TOKENS and count >= 1 for tokens, count in counted)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\xff" + DIGEST,
        pack(DIGEST, []) + b"\x01",
        pack(DIGEST, []) + b"\x00\x00\x01",
    ],
)
def test_what_is_not_of_the_form_raises(value: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(DIGEST, value)


def test_counts_and_keeps_the_latest_first() -> None:
    counted: Counted = []
    for tokens in ((1,), (2,), (1,)):
        count_one(counted, tokens)
    assert counted == [((1,), 2), ((2,), 1)]


def test_when_full_the_oldest_of_the_rarest_goes() -> None:
    counted: Counted = []
    for number in range(MAX_CONTINUATIONS):
        count_one(counted, (number,))
    count_one(counted, (0,))
    count_one(counted, (99,))
    tokens = [token_ids[0] for token_ids, _ in counted]
    assert len(tokens) == MAX_CONTINUATIONS
    assert tokens[:2] == [99, 0]
    assert 1 not in tokens


def test_a_count_stays_within_its_two_bytes() -> None:
    counted: Counted = [((1,), MAX_COUNT)]
    count_one(counted, (1,))
    assert unpack(DIGEST, pack(DIGEST, counted)) == [((1,), MAX_COUNT)]
