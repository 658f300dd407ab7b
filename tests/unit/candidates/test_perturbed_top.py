"""A drafter that knows the target's logits knows its draws."""

from __future__ import annotations

import numpy as np
import pytest

from dspark.candidates.perturbed_top import DrawNoise, top_scores
from dspark.keyed_noise import KeyedNoise
from dspark.sampling import SamplingParams
from dspark.verifier.sampling.sampler import Sampler

VOCAB = 3000
ALL = DrawNoise(np.arange(VOCAB))


def logits_of(seed: int, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(VOCAB).astype(np.float32) * spread


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_the_best_is_what_the_verifier_draws(temperature: float, seed: int) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, seed=seed))
    for position in range(20):
        logits = logits_of(position)
        best, _ = top_scores(ALL.perturbed(logits, temperature, seed, position), 1.0, 4)
        assert best[0] == sampler.draw(logits, position, ())


def test_the_noise_is_the_verifiers_for_a_part_of_the_vocabulary_too() -> None:
    token_ids = np.array([3, 17, 2000])
    values = DrawNoise(token_ids).perturbed(np.zeros(3, dtype=np.float32), 2.0, 5, 9)
    assert values == pytest.approx(2.0 * KeyedNoise(5, 9).gumbel(token_ids), rel=1e-6)
    again = DrawNoise(token_ids).perturbed(np.ones(3, dtype=np.float32), 2.0, 5, 9)
    assert again == pytest.approx(values + 1, rel=1e-6)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("count", [1, 5, VOCAB])
def test_scores_are_a_softmax_best_first(scale: float, count: int) -> None:
    values = logits_of(1)
    ids, scores = top_scores(values, scale, count)
    powers = np.exp((values.astype(np.float64) - values.max()) / scale)
    softmax = powers / powers.sum()
    assert scores == pytest.approx(softmax[ids], rel=1e-3)
    assert ids.tolist() == np.argsort(-values, kind="stable")[: len(ids)].tolist()
    assert len(ids) == min(count, len(ids)) and float(scores.sum()) <= 1 + 1e-5


def test_equal_values_go_by_the_lowest_id() -> None:
    values = np.zeros(50, dtype=np.float32)
    assert top_scores(values, 1.0, 3)[0].tolist() == [0, 1, 2]


def test_rows_without_a_largest_value_give_nothing() -> None:
    for worst in (np.nan, np.inf, -np.inf):
        assert len(top_scores(np.full(5, worst, dtype=np.float32), 1.0, 3)[0]) == 0
    assert len(top_scores(np.empty(0, dtype=np.float32), 1.0, 3)[0]) == 0


def test_scores_hold_for_a_target_whose_errors_are_as_supposed() -> None:
    """Of draws whose best has the score s, a share of s is right."""
    random, scale, temperature = np.random.default_rng(3), 0.8, 1.0
    total, hits, rounds = 0.0, 0, 600
    noise = DrawNoise(np.arange(40))
    for position in range(rounds):
        draft = random.standard_normal(40).astype(np.float32) * 2
        target = (draft + scale * random.gumbel(size=40)).astype(np.float32)
        ids, scores = top_scores(noise.perturbed(draft, temperature, 1, position), scale, 1)
        drawn = Sampler(SamplingParams(temperature=temperature, seed=1)).draw(target, position, ())
        total, hits = total + float(scores[0]), hits + int(ids[0] == drawn)
    # Four standard deviations.
    assert abs(hits - total) < 4 * (0.25 * rounds) ** 0.5
    assert 0.3 * rounds < hits < 0.95 * rounds
