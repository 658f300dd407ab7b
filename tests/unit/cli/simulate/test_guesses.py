"""Guesses of simulated sources, and how often they are right."""

from __future__ import annotations

import pytest

from dspark.cli.simulate.given_guesses import GivenGuesses
from dspark.cli.simulate.guesses import Place
from dspark.cli.simulate.recorded_guesses import (
    RecordedGuesses,
    RecordedModel,
    RecordedProposal,
    RecordedText,
)
from dspark.cli.simulate.simulated_sequence import accepted_path
from dspark.cli.simulate.source_model import SourceModel, TextKind
from dspark.cli.simulate.verifier_model import VOCAB_SIZE

CHAIN = SourceModel("chain", (0.8, 0.6), max_depth=3)


def places(count: int, texts: int = 100) -> list[Place]:
    return [Place(n % texts, 10, 20 * (n // texts)) for n in range(count)]


def test_acceptance_by_depth_is_what_was_given() -> None:
    guesses = GivenGuesses([CHAIN], [], seed=1)
    depths = [len(accepted_path(guesses.tree(p, ["chain"], 15, 9))) for p in places(5000)]
    reached = [sum(depth >= d for depth in depths) for d in (1, 2, 3)]
    assert reached[0] / 5000 == pytest.approx(0.8, abs=0.02)
    assert reached[1] / reached[0] == pytest.approx(0.6, abs=0.03)
    assert reached[2] / reached[1] == pytest.approx(0.6, abs=0.04)


def test_the_second_guess_is_right_where_the_first_is_not() -> None:
    source = SourceModel("wide", (0.5,), further=(0.3,), max_depth=1)
    guesses = GivenGuesses([source], [], seed=1)
    trees = [guesses.tree(place, ["wide"], 15, 9) for place in places(4000)]
    assert all(len(tree) == 2 for tree in trees)
    right = sum(bool(accepted_path(tree)) for tree in trees)
    assert right / 4000 == pytest.approx(0.8, abs=0.02)


def test_kinds_of_texts_are_right_more_or_less_often() -> None:
    kinds = [TextKind(0.5, 1.2), TextKind(0.5, 0.25)]
    guesses = GivenGuesses([SourceModel("a", (0.8,), max_depth=1)], kinds, seed=1)
    easy = [text for text in range(400) if guesses.factor(text) > 1]
    assert len(easy) == pytest.approx(200, abs=40)
    of_easy = [guesses.tree(Place(t, 0, n), ["a"], 1, 1) for t in easy for n in range(10)]
    assert sum(bool(accepted_path(t)) for t in of_easy) / len(of_easy) == pytest.approx(
        0.96, abs=0.02
    )
    assert {round(tree.scores[0], 6) for tree in of_easy} == {0.96}


def test_scores_promise_too_much_where_a_source_is_overconfident() -> None:
    sober = GivenGuesses([SourceModel("a", (0.5,))], [], 1).tree(places(1)[0], ["a"], 9, 9)
    source = SourceModel("a", (0.5,), overconfidence=1.5)
    vain = GivenGuesses([source], [], 1).tree(places(1)[0], ["a"], 9, 9)
    assert vain.scores == pytest.approx([1.5 * score for score in sober.scores])
    assert accepted_path(vain) == accepted_path(sober)


def test_a_source_that_has_nothing_to_offer_says_nothing() -> None:
    guesses = GivenGuesses([SourceModel("a", (0.9,), offered=0.25, span_tokens=1)], [], seed=1)
    trees = [guesses.tree(place, ["a"], 9, 9) for place in places(4000)]
    assert sum(bool(tree) for tree in trees) / 4000 == pytest.approx(0.25, abs=0.02)


def test_sources_agree_where_both_are_right_and_only_those_asked_guess() -> None:
    both = [SourceModel("a", (0.7,), max_depth=2), SourceModel("b", (0.7,), max_depth=2)]
    guesses = GivenGuesses(both, [], seed=1)
    for place in places(200):
        tree = guesses.tree(place, ["a", "b"], 15, 9)
        assert all(tree.source_masks[entry - 1] == 3 for entry in accepted_path(tree))
        alone = guesses.tree(place, ["b"], 15, 9)
        assert set(alone.source_masks) == {2}
        tree.validate(VOCAB_SIZE)


def test_trees_keep_to_their_limits_and_come_again_the_same() -> None:
    source = SourceModel("a", (0.8,), further=(0.1, 0.05), max_depth=8)
    first, second = (GivenGuesses([source], [], seed=1) for _ in range(2))
    for place in places(50):
        tree = first.tree(place, ["a"], 7, 3)
        assert len(tree) <= 7 and max(tree.depths) <= 3
        assert tree == second.tree(place, ["a"], 7, 3)


PROPOSALS = (
    RecordedProposal(0, (0, 1), (1, 2), (0.9, 0.5), (0, 1)),
    RecordedProposal(4, (0, 0), (1, 2), (0.9, 0.5), (1,)),
)
RECORDED = RecordedModel(("a", "b"), (), (RecordedText(PROPOSALS),))


@pytest.mark.parametrize(
    ("generated", "path"), [(0, (1, 2)), (3, (1, 2)), (4, (2,)), (5, (1, 2)), (9, (2,))]
)
def test_a_recorded_text_is_followed_and_begins_anew(generated: int, path: tuple[int]) -> None:
    tree = RecordedGuesses(RECORDED, 0).tree(Place(7, 3, generated), ["a", "b"], 9, 9)
    assert accepted_path(tree) == path


def test_recorded_texts_come_in_turn() -> None:
    texts = tuple(RecordedText((PROPOSALS[n % 2],)) for n in range(2))
    guesses = RecordedGuesses(RecordedModel(("a", "b"), (), texts), seed=1)
    depths = [len(accepted_path(guesses.tree(Place(n, 3, 0), "ab", 9, 9))) for n in range(4)]
    assert depths == [1, 2, 1, 2]


def test_recorded_nodes_of_sources_that_are_not_asked_are_left_out() -> None:
    guesses = RecordedGuesses(RECORDED, 0)
    assert guesses.tree(Place(7, 3, 4), ["b"], 9, 9).source_masks == (2,)
    # A node whose parent is not there is out of reach.
    assert not guesses.tree(Place(7, 3, 0), ["b"], 9, 9)
    assert len(guesses.tree(Place(7, 3, 0), ["a", "b"], 9, 1)) == 1
    assert len(guesses.tree(Place(7, 3, 0), ["a", "b"], 1, 9)) == 1


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (((1,), (1,), (0.5,), ()), "parents must come before"),
        (((0,), (1, 1), (0.5,), ()), "one entry a node"),
        (((0,), (1,), (0.5,), (1,)), "right must be places"),
    ],
)
def test_a_recorded_proposal_that_is_no_tree_is_refused(values: tuple, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecordedProposal(0, *values)
