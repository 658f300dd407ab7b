"""Joined pieces equal the decoding of the whole, and no piece has a broken character."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dspark.gateway.detokenizer import (
    MAX_PENDING_TOKENS,
    REPLACEMENT,
    IncrementalDetokenizer,
)
from harness.byte_tokenizer import EOS, byte_tokenizer, metaspace_tokenizer

FAMILY = "👨‍👩‍👧‍👦"
TEXTS = ["plain", "€uro", "漢字かな", "สวัสดี", "é é", f"a{FAMILY}b", "🇩🇪🏳️‍🌈", "\n\t ", "Ω≈ç"]
PIECES = [
    b"\xe2\x82",
    b"\xac\xe2",
    b"\xf0\x9f",
    b"\x91\xa8\xe2\x80",
    b"\x8d\xf0",
    b" \xe6",
    b"ab",
    b"\xff\xff",
]
BYTES = byte_tokenizer(PIECES)
WORDS = ["▁", "▁Hello", "▁wor", "ld", "e", "▁a"]
METASPACE = metaspace_tokenizer(WORDS)


def _decoder(tokenizer: Tokenizer, prompt: Sequence[int] = ()) -> IncrementalDetokenizer:
    special = [i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special]
    return IncrementalDetokenizer(tokenizer.decode, frozenset(special), prompt)


def _pieces(
    tokenizer: Tokenizer, runs: Sequence[Sequence[int]], prompt: Sequence[int] = ()
) -> list[str]:
    detokenizer = _decoder(tokenizer, prompt)
    return [*(detokenizer.push(run) for run in runs), detokenizer.flush()]


def _split(ids: Sequence[int], cuts: Sequence[int]) -> list[Sequence[int]]:
    marks = sorted({0, len(ids), *(c % (len(ids) + 1) for c in cuts)})
    return [ids[a:b] for a, b in itertools.pairwise(marks)]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_text_split_at_every_byte_comes_out_whole(text: str, size: int) -> None:
    ids = list(text.encode())
    pieces = _pieces(BYTES, [ids[i : i + size] for i in range(0, len(ids), size)])
    assert "".join(pieces) == text
    assert REPLACEMENT not in "".join(pieces)


@given(st.text(max_size=24), st.lists(st.integers(0, 200), max_size=12))
def test_any_text_at_any_split(text: str, cuts: list[int]) -> None:
    ids = list(text.encode())
    pieces = _pieces(BYTES, _split(ids, cuts))
    assert "".join(pieces) == text
    assert all(REPLACEMENT not in piece for piece in pieces) or REPLACEMENT in text


@given(
    st.lists(st.integers(0, 256 + len(PIECES) + 1), max_size=40),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_any_byte_level_tokens_decode_as_the_whole(ids: list[int], cuts: list[int]) -> None:
    assert "".join(_pieces(BYTES, _split(ids, cuts))) == BYTES.decode(ids)


@given(
    st.text(alphabet="a é€漢👨\u200d ", max_size=12),
    st.lists(st.sampled_from(range(256, 256 + len(WORDS))), max_size=6),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_byte_fallback_tokens_continue_a_prompt(
    text: str, words: list[int], cuts: list[int]
) -> None:
    prompt = [256 + WORDS.index("▁Hello")]
    ids = [*words, *text.encode(), *words]
    expected = METASPACE.decode(prompt + ids).removeprefix(METASPACE.decode(prompt))
    pieces = _pieces(METASPACE, _split(ids, cuts), prompt)
    assert "".join(pieces) == expected
    assert all(REPLACEMENT not in piece for piece in pieces)


@pytest.mark.parametrize("tokenizer", [BYTES, METASPACE], ids=["byte level", "byte fallback"])
@given(
    st.text(alphabet="a é€漢👨\u200d ", max_size=16),
    st.lists(st.sampled_from(range(256, 256 + len(WORDS))), max_size=24),
    st.integers(0, 12),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_text_that_breaks_off_anywhere_does_not_depend_on_its_runs(
    tokenizer: Tokenizer, text: str, words: list[int], missing: int, cuts: list[int]
) -> None:
    start = words if tokenizer is METASPACE else [*b"word " * len(words)]
    ids = [*start, *text.encode()]
    ids = ids[: len(ids) - missing]
    one_by_one = "".join(_pieces(tokenizer, [[token_id] for token_id in ids]))
    assert "".join(_pieces(tokenizer, _split(ids, cuts))) == one_by_one
    assert REPLACEMENT not in one_by_one.rstrip(REPLACEMENT)


def test_the_first_word_keeps_the_space_that_a_decoder_strips_from_a_beginning() -> None:
    hello, a = (256 + WORDS.index(word) for word in ("▁Hello", "▁a"))
    assert _decoder(METASPACE).push([a]) == "a"
    assert _decoder(METASPACE, [hello]).push([a]) == " a"


def test_a_truncated_character_at_the_end_becomes_one_replacement() -> None:
    assert _pieces(BYTES, [list(b"ok \xf0\x9f"), [0x98]]) == ["ok ", "", REPLACEMENT]


def test_text_before_an_incomplete_character_is_released_at_once() -> None:
    space_and_half = 256 + PIECES.index(b" \xe6")
    assert _decoder(BYTES).push([space_and_half]) == " "


def test_special_tokens_have_no_text_and_break_no_character() -> None:
    end = BYTES.token_to_id(EOS)
    assert "".join(_pieces(BYTES, [[0xE2], [end], [0x82], [0xAC], [end]])) == "€"


@pytest.mark.parametrize("piece", [p for p in PIECES if b"\xff" not in p])
@pytest.mark.parametrize("more", [b"", b"\x82", b"\x82\xac", b"\x9f\x98\x80", b"x"])
def test_long_runs_that_end_inside_a_character_repeat_and_lose_nothing(
    piece: bytes, more: bytes
) -> None:
    """A run of any length, and several that each end so."""
    last = 256 + PIECES.index(piece)
    for size in range(3 * MAX_PENDING_TOKENS):
        run = [*b"a" * size, last]
        ids = [*run, *more, *run, *run, *more]
        for runs in ([ids], [run, more, run, run, more], [ids[:-2], ids[-2:]]):
            assert "".join(_pieces(BYTES, runs)) == BYTES.decode(ids)


@pytest.mark.parametrize("char", ["é", "漢", "😀"])
@pytest.mark.parametrize("before", ["", "▁wor", "e", "漢"])
def test_long_runs_of_byte_fallback_that_end_inside_a_character_lose_nothing(
    before: str, char: str
) -> None:
    """What comes before a character that stays incomplete is text however it came."""
    encoded, start = char.encode(), [256 + WORDS.index("▁Hello")]
    piece = [256 + WORDS.index(before)] if before in WORDS else [*before.encode()]
    for size in range(MAX_PENDING_TOKENS + 4):
        whole = piece * size
        text = METASPACE.decode(start + whole).removeprefix(METASPACE.decode(start))
        for held in range(1, len(encoded)):
            run, rest = [*whole, *encoded[:held]], [*encoded[held:], *piece]
            for runs in ([run], [run[:3], run[3:]], [[token_id] for token_id in run]):
                cut = "".join(_pieces(METASPACE, runs, start))
                assert cut.rstrip(REPLACEMENT) == text and len(cut) <= len(text) + held
                ids = start + run + rest
                expected = METASPACE.decode(ids).removeprefix(METASPACE.decode(start))
                assert "".join(_pieces(METASPACE, [*runs, rest], start)) == expected


def test_endless_garbage_stays_in_a_bounded_window() -> None:
    longest = 0

    def decode(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return BYTES.decode(ids)

    detokenizer = IncrementalDetokenizer(decode)
    garbage = [0xE2, 0xFF, 0x82] * 100
    text = "".join(detokenizer.push([i]) for i in garbage)
    text += "".join(detokenizer.push([i]) for i in "€".encode()) + detokenizer.flush()
    assert text == BYTES.decode([*garbage, *"€".encode()])
    assert longest <= 2 * MAX_PENDING_TOKENS + 2


@pytest.mark.parametrize("char", ["é", "€", "😀"])
@pytest.mark.parametrize("before", ["", "ab", "aé", "\ufffd"])
@given(cuts=st.lists(st.integers(0, 8)))
def test_a_character_that_the_prompt_begins_is_the_text_of_who_completes_it(
    char: str, before: str, cuts: list[int]
) -> None:
    encoded = char.encode()
    for held in range(1, len(encoded)):
        prompt = [*before.encode(), *encoded[:held]]
        ids = [*encoded[held:], *"x€".encode()]
        assert "".join(_pieces(BYTES, _split(ids, cuts), prompt)) == f"{char}x€"


@given(cuts=st.lists(st.integers(0, 8)))
def test_a_character_that_stays_incomplete_is_the_prompts(cuts: list[int]) -> None:
    for prompt in ([*b"a\xe2"], [*b"a\xe2\x82"], [0xFF], [0xF0, 0x9F, 0x98], [*"\ufffd".encode()]):
        assert "".join(_pieces(BYTES, _split([*b"xyz"], cuts), prompt)) == "xyz"
    assert _pieces(BYTES, [], [*b"a\xe2"]) == [""]
