"""What is asked of a verifier: all that candidates want, if it can be had, within bounds."""

from __future__ import annotations

import logging

import pytest

from dspark.proposal import CandidatesInfo
from dspark.sampling import SpeculationParams
from dspark.scheduler.feature_wishes import MAX_BYTES, NO_FEATURES, FeatureWish, FeatureWishes

ON = SpeculationParams()
WISHES = FeatureWishes((0, 1, 2, 3), hidden_size=8)


def info(layers: tuple[int, ...], num_features: int = 1) -> CandidatesInfo:
    return CandidatesInfo(("a",), 0, feature_layers=layers, num_features=num_features)


def test_what_candidates_want_is_asked_for() -> None:
    assert WISHES.wish(info((0, 2), 5), [ON] * 3) == FeatureWish((0, 2), 5)


@pytest.mark.parametrize("given", [info(()), info((0,), 0)])
def test_nothing_is_asked_that_nobody_wants(given: CandidatesInfo) -> None:
    assert WISHES.wish(given, [ON] * 3) == NO_FEATURES
    assert WISHES.wish(info((0,)), [ON] * 0) == NO_FEATURES


@pytest.mark.parametrize("layers", [(0, 4), (2, 0), (1, 1)])
def test_layers_that_cannot_be_had_are_told_once(
    layers: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    wishes = FeatureWishes((0, 1, 2, 3), hidden_size=8)
    with caplog.at_level(logging.WARNING):
        assert [wishes.wish(info(layers), [ON] * 1) for _ in range(3)] == [NO_FEATURES] * 3
    assert len(caplog.records) == 1


def test_a_verifier_without_features_is_not_asked() -> None:
    assert FeatureWishes().wish(info((0,)), [ON] * 1) == NO_FEATURES
    assert FeatureWishes((0,)).wish(info((0,)), [ON] * 1) == NO_FEATURES


def test_all_requests_together_stay_within_a_message() -> None:
    layers, num_requests = (0, 1, 2), 64
    wish = WISHES.wish(info(layers, 2**32 - 1), [ON] * num_requests)
    size = wish.num_tokens * len(layers) * 8 * 2 * num_requests
    assert MAX_BYTES * 0.99 < size <= MAX_BYTES
    assert WISHES.wish(info(layers), [ON] * 10**6) == NO_FEATURES


@pytest.mark.parametrize(
    ("speculation", "num_tokens"),
    [
        (SpeculationParams(), 5),
        (SpeculationParams(sources=("plain", "net")), 5),
        (SpeculationParams(sources=("plain",)), 0),
        (SpeculationParams(enabled=False), 0),
    ],
)
def test_a_request_that_cannot_ask_who_wants_them_gives_none(
    speculation: SpeculationParams, num_tokens: int
) -> None:
    given = CandidatesInfo(("plain", "net"), 0, (), (0, 2), 5, feature_sources=("net",))
    assert WISHES.wish(given, [ON, speculation]).of(speculation) == num_tokens
    expected = FeatureWish((0, 2), 5, ("net",)) if num_tokens else NO_FEATURES
    assert WISHES.wish(given, [speculation]) == expected


def test_candidates_that_do_not_say_who_wants_them_get_all() -> None:
    named = SpeculationParams(sources=("a",))
    assert WISHES.wish(info((0,), 2), [named]).of(named) == 2
