"""Agreement of two models on a continuation."""

from __future__ import annotations

import numpy as np
import pytest

from dspark.verifier.evaluation.agreement import agreement
from dspark.verifier.evaluation.log_probabilities import Logits, kl_divergence


def peaks(token_ids: list[int]) -> Logits:
    """Logits rows of 5 tokens whose largest is the given one."""
    return (np.eye(5)[token_ids] * 3).astype(np.float32)


def test_counts_sums_and_the_first_difference() -> None:
    expected, found = [1, 2, 3, 4, 0], [1, 2, 0, 4, 0]
    result = agreement(np.array(expected), [(peaks(expected), peaks(found))])
    assert (result.num_tokens, result.num_same_top, result.common_prefix) == (5, 4, 2)
    divergence = kl_divergence(peaks(expected), peaks(found))
    assert divergence[2] > 1
    assert result.kl_sum == pytest.approx(float(divergence[2]))


@pytest.mark.parametrize(
    ("found", "common_prefix"), [([1, 2, 3], 3), ([0, 2, 3], 0), ([1, 2, 0], 2)]
)
def test_the_common_prefix_ends_at_the_first_other_token(
    found: list[int], common_prefix: int
) -> None:
    result = agreement(np.array([1, 2, 3]), [(peaks([1, 2, 3]), peaks(found))])
    assert result.common_prefix == common_prefix


def test_chunks_make_no_difference() -> None:
    expected, found = peaks([1, 2, 3, 4]), peaks([1, 0, 3, 4])
    continuation = np.array([1, 2, 3, 4])
    whole = agreement(continuation, [(expected, found)])
    cut = [(expected[i : i + 1], found[i : i + 1]) for i in range(4)]
    assert agreement(continuation, cut) == whole


def test_rows_for_other_tokens_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 rows of logits for 2 tokens"):
        agreement(np.array([1, 2]), [(peaks([1]), peaks([1]))])
