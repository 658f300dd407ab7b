"""Log-probabilities from logits, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]


def log_softmax(logits: Logits) -> Floats:
    """Log-probabilities of logits rows, both [num_rows, vocab_size]."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def token_log_probabilities(logits: Logits, token_ids: NDArray[np.int64]) -> Floats:
    """[num_rows] log-probability of the token [num_rows] that follows each row."""
    chosen: Floats = log_softmax(logits)[np.arange(len(token_ids)), token_ids]
    return chosen


def kl_divergence(reference: Logits, other: Logits) -> Floats:
    """[num_rows] KL(reference || other) in nats, of logits rows [num_rows, vocab_size]."""
    expected, found = log_softmax(reference), log_softmax(other)
    probabilities = np.exp(expected)
    # Tokens that the reference rules out count for nothing, also where their logit is -inf.
    with np.errstate(invalid="ignore"):
        terms = np.where(probabilities == 0, 0.0, probabilities * (expected - found))
    divergence: Floats = terms.sum(axis=1)
    return divergence
