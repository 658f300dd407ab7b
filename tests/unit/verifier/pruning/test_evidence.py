"""What a parent's row says of its children: scores of a draw, and how they compare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspark.keyed_noise import KeyedNoise
from dspark.sampling import SamplingParams
from dspark.verifier.pruning.draw_scores import draw_scores
from dspark.verifier.pruning.evidence import NUM_NUMBERS, evidence_of
from dspark.verifier.pruning.forest import Forest, Parent
from dspark.verifier.pruning.likely_tokens import LikelyTokens
from dspark.verifier.pruning.node_priors import NUM_PRIORS
from dspark.verifier.pruning.token_means import TokenMeans

GREEDY = SamplingParams(temperature=0.0)
TOKENS = np.array([4, 7, 9], dtype=np.int64)
LOGITS = np.array([[1.0, 3.0, 8.0], [0.5, 0.0, 5.0]], dtype=np.float32)


def forest(sampling: SamplingParams = GREEDY) -> Forest:
    """Tokens 7 and 4 after the first row, 9 after the second."""
    return Forest(
        num_rows=5,
        parents=(Parent(1, 20, sampling), Parent(2, 21, sampling)),
        rows=np.array([2, 3, 4]),
        token_ids=np.array([7, 4, 9]),
        parent_places=np.array([0, 0, 1]),
        parent_nodes=np.array([-1, -1, 0]),
        priors=np.arange(3.0 * NUM_PRIORS).reshape(3, NUM_PRIORS),
    )


def test_at_temperature_0_a_logit_is_its_score() -> None:
    assert draw_scores(forest(), TOKENS, LOGITS.astype(np.float64)).tolist() == LOGITS.tolist()


def test_above_it_scores_are_those_of_the_draw() -> None:
    mixed = forest()
    drawn = replace(mixed.parents[1], sampling=SamplingParams(temperature=0.5, seed=3))
    mixed = replace(mixed, parents=(mixed.parents[0], drawn))
    scores = draw_scores(mixed, TOKENS, LOGITS.astype(np.float64))
    assert scores[0].tolist() == LOGITS[0].tolist()
    np.testing.assert_allclose(scores[1], LOGITS[1] / 0.5 + KeyedNoise(3, 21).gumbel(TOKENS))


def test_siblings_and_all_tokens_are_compared() -> None:
    found = evidence_of(forest(), TOKENS, LOGITS.astype(np.float64))
    assert found.shape == (3, NUM_NUMBERS)
    spreads = LOGITS.astype(np.float64).std(axis=1)[[0, 0, 1]]
    np.testing.assert_allclose(found[:, 0], 1.0)
    np.testing.assert_allclose(found[:, 1] * spreads, [0.0, 2.0, 0.0])
    np.testing.assert_allclose(found[:, 2] * spreads, [5.0, 7.0, 0.0])
    np.testing.assert_allclose(np.expm1(found[:, 3]), [1, 2, 0], atol=1e-12)
    assert found[:, 4:].tolist() == forest().priors.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_with_what_is_no_number_says_nothing(value: float) -> None:
    scores = LOGITS.astype(np.float64)
    scores[0, 2] = value
    found = evidence_of(forest(), TOKENS, scores)
    assert np.isfinite(found).all()
    assert found[:2, 1:4].tolist() == [[0.0, 0.0, 0.0]] * 2
    assert found[2, 1] == 0.0


def test_means_are_of_tokens_over_rows() -> None:
    means = TokenMeans()
    first = means.without(TOKENS, LOGITS)
    np.testing.assert_allclose(first, LOGITS - LOGITS.mean(axis=0))
    ids = np.array([7, 20], dtype=np.int64)
    second = means.without(ids, np.array([[6.0, 1.0]], dtype=np.float32))
    # Token 7 had 3 and 0 before, token 20 nothing.
    np.testing.assert_allclose(second, [[6.0 - 3.0, 0.0]])


def test_a_row_without_numbers_spoils_no_mean() -> None:
    means = TokenMeans()
    with np.errstate(invalid="ignore"):
        means.without(TOKENS, np.full((1, 3), np.nan, dtype=np.float32))
    assert np.isfinite(means.without(TOKENS, LOGITS)).all()


def test_likely_tokens_are_the_last_different_ones() -> None:
    likely = LikelyTokens(size=3)
    likely.note([5, 6, 5, 7])
    assert likely.together_with(np.array([6, 2])).tolist() == [2, 5, 6, 7]
    likely.note([8])
    assert likely.together_with(np.array([], dtype=np.int64)).tolist() == [5, 7, 8]
