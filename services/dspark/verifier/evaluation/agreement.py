"""How far two models agree on the continuation that one of them chose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.evaluation.log_probabilities import Logits, kl_divergence


@dataclass(frozen=True, slots=True)
class Agreement:
    """One continuation of ``num_tokens`` by the reference, seen by the other model.

    ``num_same_top``: positions at which the other, given the same tokens before, ranks the same
    token first. ``kl_sum``: KL(reference || other) in nats, summed over the positions.
    ``common_prefix``: tokens until the first position where it does not, which is how long the
    other's own greedy output equals the reference's.
    """

    num_tokens: int
    num_same_top: int
    kl_sum: float
    common_prefix: int


def agreement(continuation: NDArray[np.int64], pairs: Iterable[tuple[Logits, Logits]]) -> Agreement:
    """Compare (reference, other) logits [some rows, vocab_size], which follow each other.

    The rows of all pairs are those that predict the tokens of ``continuation``, in order.
    """
    same: list[bool] = []
    kl_sum = 0.0
    for reference, other in pairs:
        expected = continuation[len(same) : len(same) + len(other)]
        same += (other.argmax(axis=1) == expected).tolist()
        kl_sum += float(kl_divergence(reference, other).sum())
    if len(same) != len(continuation):
        raise ValueError(f"{len(same)} rows of logits for {len(continuation)} tokens")
    common_prefix = same.index(False) if False in same else len(same)
    return Agreement(len(same), sum(same), kl_sum, common_prefix)
