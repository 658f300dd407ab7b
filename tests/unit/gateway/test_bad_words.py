"""Which token runs spell a bad word."""

from __future__ import annotations

import pytest

from dspark.errors import InvalidArgument
from dspark.gateway.bad_words import bad_word_runs, check_bad_words

# A vocabulary in which a word behind a space may be a token of its own.
RUNS = {
    "cat": (1,),
    " cat": (2,),
    "dog": (3, 4),
    " dog": (5,),
    "bird": (6, 7),
    " bird": (8, 7),
    "\u2581": (),
    " \u2581": (9,),
    "fish": (10, 11),
    " fish": (10, 12),
}


def test_a_word_is_bad_with_and_without_a_space() -> None:
    assert bad_word_runs(["cat"], RUNS.__getitem__) == ((1,), (2,))
    assert bad_word_runs(["bird"], RUNS.__getitem__) == ((6, 7), (8, 7))


def test_leading_spaces_of_the_word_itself_do_not_matter() -> None:
    assert bad_word_runs(["  cat"], RUNS.__getitem__) == ((1,), (2,))


def test_a_run_of_another_length_or_the_same_beginning_is_left_out() -> None:
    assert bad_word_runs(["dog", "fish"], RUNS.__getitem__) == ((3, 4), (10, 11))


def test_each_run_comes_once() -> None:
    assert bad_word_runs(["cat", "cat", " cat"], RUNS.__getitem__) == ((1,), (2,))


def test_a_word_without_tokens_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        bad_word_runs(["\u2581"], RUNS.__getitem__)
    assert caught.value.field == "bad_words"


@pytest.mark.parametrize("words", [[""], [" "], ["x" * 257], ["x"] * 257])
def test_limits(words: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_bad_words(words)
    assert caught.value.field == "bad_words"
