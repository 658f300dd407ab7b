"""A source that is never right for a request is left alone for a while."""

from __future__ import annotations

from dspark.scheduler.source_mutes import SourceMutes
from dspark.token_tree import TokenTree, chain

WRONG, RIGHT = chain([1], "a"), chain([2], "b")


def test_a_source_is_muted_after_bad_rounds_in_a_row_and_tried_again() -> None:
    mutes = SourceMutes(mute_after=3, mute_steps=10)
    for step in range(3):
        assert mutes.active(("a", "b"), step) == ("a", "b")
        mutes.update(WRONG, (), step)
        mutes.update(RIGHT, (1,), step)
    assert mutes.active(("a", "b"), 3) == ("b",)
    assert mutes.active(("a", "b"), 11) == ("b",)
    assert mutes.active(("a", "b"), 12) == ("a", "b")


def test_one_more_bad_round_mutes_again_and_a_good_one_frees() -> None:
    mutes = SourceMutes(mute_after=2, mute_steps=10)
    for step in (0, 1, 20):
        mutes.update(WRONG, (), step)
    assert mutes.active(("a",), 21) == ()
    mutes.update(WRONG, (1,), 40)
    mutes.update(WRONG, (), 41)
    assert mutes.active(("a",), 42) == ("a",)


def test_a_good_round_between_starts_the_count_anew() -> None:
    mutes = SourceMutes(mute_after=2, mute_steps=10)
    for step in range(10):
        mutes.update(WRONG, (1,) if step % 2 else (), step)
        assert mutes.active(("a",), step + 1) == ("a",)


def test_only_sources_that_had_a_node_verified_are_judged() -> None:
    mutes = SourceMutes(mute_after=1, mute_steps=10)
    mutes.update(TokenTree(source_names=("a",)), (), 0)
    assert mutes.active(("a",), 1) == ("a",)
    mutes.update(TokenTree((1, 2), (0, 0), (1, 3), (0.5, 0.5), ("a", "b")), (2,), 1)
    assert mutes.active(("a", "b"), 2) == ("a", "b")
