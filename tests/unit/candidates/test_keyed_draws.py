from __future__ import annotations

import math

import numpy as np
import pytest

from dspark.candidates.best_first import grow
from dspark.candidates.keyed_draws import KeyedDraws, draws_of
from dspark.candidates.sequence import LiveSequence
from dspark.keyed_noise import KeyedNoise

VOCAB, KNOWN, PLACES = 50, 5, 400
LOGITS = np.random.default_rng(3).normal(scale=2.0, size=(PLACES, VOCAB))
SHARES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)


def drawn(place: int, temperature: float, seed: int = 11) -> int:
    """What the target draws."""
    noise = KeyedNoise(seed, place).gumbel(np.arange(VOCAB))
    return int(np.argmax(LOGITS[place] + temperature * noise))


def guesses_at(place: int) -> list[tuple[int, float, int]]:
    best = np.argsort(-SHARES[place])[:KNOWN].tolist()
    return [(token_id, float(SHARES[place, token_id]), token_id) for token_id in best]


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_of_known_tokens_the_noise_tells_the_one(temperature: float) -> None:
    draws = KeyedDraws(temperature, 11, 0)
    num_among, num_first = 0, 0
    for place in range(PLACES):
        guesses = guesses_at(place)
        token_id = drawn(place, temperature)
        if token_id in [guess[0] for guess in guesses]:
            num_among += 1
            assert draws.rescored(guesses, place)[0][0] == token_id
            num_first += guesses[0][0] == token_id
    # without the noise the likeliest is often another
    assert num_first < 0.8 * num_among


def test_probabilities_of_exact_guesses_come_true() -> None:
    draws = KeyedDraws(1.0, 11, 0, error_scale=0.1)
    promised, held = 0.0, 0
    for place in range(PLACES):
        (token_id, score, _), *others = draws.rescored(guesses_at(place), place)
        promised += score + sum(other[1] for other in others)
        held += drawn(place, 1.0) in [token_id, *(other[0] for other in others)]
        assert 0 < score + sum(other[1] for other in others) <= 1
    assert promised / PLACES == pytest.approx(held / PLACES, abs=0.05)


def test_the_place_counts_from_the_first_draw() -> None:
    early, late = KeyedDraws(1.0, 5, 20), KeyedDraws(1.0, 5, 23)
    assert early.rescored(guesses_at(0), 3) == late.rescored(guesses_at(0), 0)


def test_nothing_known_stays_nothing() -> None:
    assert KeyedDraws(1.0, 5, 0).rescored([], 0) == []
    assert KeyedDraws(1.0, 5, 0).rescored([(3, 0.0, 3)], 0) == []


def test_a_certain_guess_stays_nearly_certain() -> None:
    ((_, score, _),) = KeyedDraws(0.01, 5, 0, error_scale=0.1).rescored([(3, 1.0, 3)], 0)
    assert score > 0.99


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_tokens_that_are_not_drawn_have_no_draws(temperature: float) -> None:
    sequence = LiveSequence("r", 1, token_ids=[1, 2])
    sequence.temperature = temperature
    assert draws_of(sequence) is None


def test_a_tree_grows_along_the_draws() -> None:
    sequence = LiveSequence("r", 1, token_ids=[7] * 10)
    sequence.temperature, sequence.seed = 1.0, 11
    draws = draws_of(sequence)
    assert draws == KeyedDraws(1.0, 11, 10)

    def expand(state: int, depth: int) -> list[tuple[int, float, int]]:
        return guesses_at(10 + depth)

    grown = grow(7, expand, max_nodes=1, max_depth=4, draws=draws)
    plain = grow(7, expand, max_nodes=1, max_depth=4)
    assert draws is not None
    assert grown.token_ids == [draws.rescored(guesses_at(10), 0)[0][0]]
    assert plain.token_ids == [guesses_at(10)[0][0]]


@pytest.mark.parametrize(("seed", "position"), [(0, 0), (2**64 - 1, 70_000), (12345, 3)])
def test_one_draw_is_that_of_many(seed: int, position: int) -> None:
    noise, ids = KeyedNoise(seed, position), np.array([0, 1, 49_151, 2**31 - 1])
    assert [noise.gumbel_of(int(i)) for i in ids] == pytest.approx(noise.gumbel(ids), rel=1e-12)
