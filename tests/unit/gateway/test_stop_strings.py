"""The cut does not depend on how a text is split, and nothing of a stop string ever leaks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.gateway.stop_strings import StopStringScanner

AB_TEXT = st.text(alphabet="ab", max_size=14)


def _expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    for end in range(1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            longest = max(hits, key=len)
            return text[: end - len(longest)], longest
    return text, None


def _scan(pieces: Sequence[str], stops: Sequence[str]) -> tuple[str, str | None]:
    scanner = StopStringScanner(stops)
    released = ""
    for piece in pieces:
        scan = scanner.push(piece)
        released += scan.text
        if scan.stop is not None:
            return released, scan.stop
    return released + scanner.flush(), None


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one STOP two", ["STOP"], ("one ", "STOP")),
        ("STOP", ["STOP"], ("", "STOP")),
        ("no end", ["STOP"], ("no end", None)),
        ("ends in STO", ["STOP"], ("ends in STO", None)),
        ("aSTSTOP", ["STOP"], ("aST", "STOP")),
        ("x END y STOP", ["STOP", "END"], ("x ", "END")),
        ("abcd", ["bcd", "c"], ("ab", "c")),
        ("abcd", ["cd", "bcd"], ("a", "bcd")),
        ("ha ha ha", [" ha ha ha", " ha ha"], ("ha", " ha ha")),
        ("日本語。終", ["。終"], ("日本語", "。終")),
    ],
)
def test_every_split_of_a_text_is_cut_the_same(
    text: str, stops: list[str], expected: tuple[str, str | None]
) -> None:
    places = range(1, len(text))
    for count in range(4):
        for cuts in combinations(places, count):
            marks = [0, *cuts, len(text)]
            pieces = [text[a:b] for a, b in pairwise(marks)]
            assert _scan(pieces, stops) == expected
    assert _scan(list(text), stops) == expected


@given(
    AB_TEXT,
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.integers(0, 14), max_size=6),
)
def test_any_text_any_stops_any_split(text: str, stops: list[str], cuts: list[int]) -> None:
    marks = sorted({0, len(text), *(min(c, len(text)) for c in cuts)})
    pieces = [text[a:b] for a, b in pairwise(marks)]
    assert _scan(pieces, stops) == _expected(text, stops)


def test_only_what_may_start_a_stop_string_is_held_back() -> None:
    scanner = StopStringScanner(["STOP", "TOY"])
    assert scanner.push("a S").text == "a "
    assert scanner.push("TO").text == ""
    assert scanner.push("N").text == "STON"
    assert scanner.push("T").text == ""
    assert scanner.flush() == "T"
