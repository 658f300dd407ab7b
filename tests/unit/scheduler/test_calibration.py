"""Calibrated scores follow what was accepted, and count a node only if it was tried."""

from __future__ import annotations

import random

import pytest

from dspark.scheduler.calibration import Calibration
from dspark.scheduler.outcomes import Outcome
from dspark.token_tree import TokenTree, chain


def teach(
    calibration: Calibration, tree: TokenTree, *token_ids: int, temperature_bin: int = 0
) -> None:
    """The tree was proposed, then these tokens were committed."""
    outcome = Outcome(tree, temperature_bin)
    outcome.follow(token_ids)
    calibration.update(outcome)


def test_without_experience_the_scores_are_believed() -> None:
    assert Calibration().survivals(chain([1, 2, 3], "a", 0.5)) == pytest.approx([0.5, 0.25, 0.125])


def test_a_child_never_reaches_its_parent() -> None:
    first, second = Calibration().survivals(chain([1, 2], "a", 1.0))
    assert 1.0 > first > second


def test_a_source_that_boasts_is_believed_less_and_a_modest_one_more() -> None:
    boasting, modest = chain([1], "boasting", 0.9), chain([1], "modest", 0.15)
    calibration = Calibration()
    for _ in range(200):
        teach(calibration, boasting, 2)
        teach(calibration, modest, 1, 5)
    assert calibration.survivals(boasting)[0] < 0.1
    assert calibration.survivals(modest)[0] > 0.9


def test_scores_converge_to_the_accepted_share() -> None:
    generator = random.Random(0)
    calibration, tree = Calibration(), chain([1], "a", 0.9)
    for _ in range(2000):
        teach(calibration, tree, 1 if generator.random() < 0.3 else 2)
    assert calibration.survivals(tree)[0] == pytest.approx(0.3, abs=0.15)


def test_only_nodes_below_accepted_parents_are_tried() -> None:
    calibration, tree = Calibration(), chain([1, 2, 3], "a", 0.5)
    for _ in range(100):
        teach(calibration, tree, 9)
    first, second, third = calibration.survivals(tree)
    assert first < 0.05
    assert second / first == pytest.approx(third / second), "neither child was ever tried"


def test_a_source_that_boasts_is_found_out_before_each_of_its_scores_is() -> None:
    calibration = Calibration()
    for score in (0.95, 0.85, 0.75, 0.65, 0.55) * 3:
        teach(calibration, chain([1], "boasting", score), 2)
    assert calibration.survivals(chain([1], "boasting", 0.45))[0] < 0.15
    assert calibration.survivals(chain([1], "unheard", 0.45))[0] == pytest.approx(0.45)


def test_siblings_are_tried_together() -> None:
    tree = TokenTree((1, 2), (0, 0), (1, 1), (0.5, 0.2), ("a",))
    calibration = Calibration()
    for _ in range(100):
        teach(calibration, tree, 2, 7)
    wrong, right = calibration.survivals(tree)
    assert wrong < 0.05 and right > 0.9


def test_a_right_node_that_ends_the_request_is_no_miss() -> None:
    calibration, tree = Calibration(), chain([1, 2], "a", 0.5)
    for _ in range(100):
        teach(calibration, tree, 1, 2)
    assert calibration.survivals(tree)[1] > 0.8


def test_agreement_of_sources_is_an_experience_of_its_own() -> None:
    alone = TokenTree((1,), (0,), (1,), (0.5,), ("a", "b"))
    agreed = TokenTree((1,), (0,), (3,), (0.5,), ("a", "b"))
    calibration = Calibration()
    for _ in range(100):
        teach(calibration, alone, 2)
        teach(calibration, agreed, 1, 5)
    assert calibration.survivals(alone)[0] < 0.1 < 0.9 < calibration.survivals(agreed)[0]
    renamed = TokenTree((1,), (0,), (3,), (0.5,), ("b", "a"))
    assert calibration.survivals(renamed) == calibration.survivals(agreed)


def test_old_experience_fades() -> None:
    calibration, tree = Calibration(), chain([1], "a", 0.5)
    for _ in range(1000):
        teach(calibration, tree, 1, 5)
    for _ in range(300):
        teach(calibration, tree, 2)
    assert calibration.survivals(tree)[0] < 0.2


def test_the_error_is_told_apart_by_source() -> None:
    generator = random.Random(1)
    calibration = Calibration()
    for _ in range(4000):
        likely, moody = generator.random() < 0.7, generator.random() < 0.2
        teach(calibration, chain([1], "steady", 0.7), 1 if likely else 2)
        teach(calibration, chain([1], "boasting", 0.9), 1 if moody else 2)
    assert calibration.errors["steady"].value < 0.05
    assert calibration.errors["boasting"].value < 0.05


def test_it_follows_when_the_traffic_changes_kind() -> None:
    generator = random.Random(2)
    calibration, tree = Calibration(), chain([1], "a", 0.5)
    for chance in (0.9, 0.1):
        for _ in range(2000):
            teach(calibration, tree, 1 if generator.random() < chance else 2)
        assert calibration.survivals(tree)[0] == pytest.approx(chance, abs=0.07)


def test_ranks_are_told_apart() -> None:
    siblings = TokenTree((1, 2), (0, 0), (1, 1), (0.5, 0.5), ("a",))
    calibration = Calibration()
    for _ in range(200):
        teach(calibration, siblings, 1)
    first, second = calibration.survivals(siblings)
    assert first > 0.8 and second < 0.2


def test_a_state_restores_all() -> None:
    calibration, tree = Calibration(), TokenTree((1, 2), (0, 1), (1, 3), (0.5, 0.4), ("a", "b"))
    for _ in range(50):
        teach(calibration, tree, 1, 5)
    assert Calibration.restored(calibration.state()).survivals(tree) == calibration.survivals(tree)


def test_free_draws_do_not_spoil_what_is_known_of_greedy_ones() -> None:
    calibration, tree = Calibration(), chain([1], "a", 0.6)
    for _ in range(100):
        teach(calibration, tree, 1, temperature_bin=0)
        teach(calibration, tree, 2, temperature_bin=3)
    assert calibration.survivals(tree, 3)[0] < 0.1 < 0.9 < calibration.survivals(tree, 0)[0]


def test_a_temperature_that_is_new_begins_with_what_others_showed() -> None:
    calibration, tree = Calibration(), chain([1], "a", 0.9)
    for _ in range(100):
        teach(calibration, tree, 2)
    assert calibration.survivals(tree, 2)[0] < 0.2
