"""Perplexity: how many tokens a model wavers between, on average, when it predicts a text."""

from __future__ import annotations

import math


def perplexity(log_probability: float, num_tokens: int) -> float:
    """exp of the mean negative log-probability; ``log_probability`` is the sum over the tokens."""
    try:
        return math.exp(-log_probability / num_tokens)
    except OverflowError:
        return math.inf
