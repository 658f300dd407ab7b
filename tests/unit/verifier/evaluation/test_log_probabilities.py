"""Log-probabilities, KL divergence and perplexity against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import rel_entr

from dspark.verifier.evaluation.log_probabilities import (
    kl_divergence,
    log_softmax,
    token_log_probabilities,
)
from dspark.verifier.evaluation.perplexity import perplexity

LOGITS = np.random.default_rng(0).normal(scale=4, size=(5, 33)).astype(np.float32)


def test_log_softmax_is_that_of_scipy_and_survives_large_logits() -> None:
    expected = scipy_log_softmax(LOGITS.astype(np.float64), axis=1)
    np.testing.assert_allclose(log_softmax(LOGITS), expected, atol=1e-12)
    np.testing.assert_allclose(log_softmax(LOGITS + np.float32(1e4)), expected, atol=1e-2)


def test_each_row_gives_the_log_probability_of_its_own_token() -> None:
    token_ids = np.array([3, 0, 32, 3, 7], dtype=np.int64)
    expected = [scipy_log_softmax(LOGITS[i].astype(float))[t] for i, t in enumerate(token_ids)]
    np.testing.assert_allclose(token_log_probabilities(LOGITS, token_ids), expected)


def test_kl_is_that_of_the_definition() -> None:
    other = np.roll(LOGITS, 1, axis=1)
    p, q = (np.exp(log_softmax(logits)) for logits in (LOGITS, other))
    np.testing.assert_allclose(kl_divergence(LOGITS, other), rel_entr(p, q).sum(axis=1))


def test_kl_is_zero_for_equal_distributions_and_not_symmetric() -> None:
    np.testing.assert_allclose(kl_divergence(LOGITS, LOGITS + 3), 0, atol=1e-5)
    other = LOGITS * np.float32(0.5)
    assert not np.allclose(kl_divergence(LOGITS, other), kl_divergence(other, LOGITS), rtol=0.1)


def test_tokens_that_the_reference_rules_out_count_for_nothing() -> None:
    ruled_out = np.array([[0.0, 0.0, -np.inf]], dtype=np.float32)
    even = np.zeros((1, 3), dtype=np.float32)
    np.testing.assert_allclose(kl_divergence(ruled_out, even), math.log(3 / 2))
    assert kl_divergence(ruled_out, ruled_out)[0] == 0
    assert kl_divergence(even, ruled_out)[0] == math.inf


def test_perplexity_of_even_guesses_is_their_number() -> None:
    assert perplexity(10 * math.log(1 / 50), 10) == pytest.approx(50)
    assert perplexity(0.0, 3) == 1
    assert perplexity(-1e6, 1) == math.inf
