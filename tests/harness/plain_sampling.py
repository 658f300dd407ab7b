"""Sampling written the slow and obvious way, to test the verifier's against."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise
from dspark.sampling import FinishReason, SamplingParams
from dspark.token_tree import TokenTree


def probabilities(logits: Sequence[float], params: SamplingParams) -> list[float]:
    """The distribution after temperature, top-k, top-p and min-p, each renormalised."""
    scaled = [logit / params.temperature for logit in logits]
    weights = {i: math.exp(value - max(scaled)) for i, value in enumerate(scaled)}
    order = sorted(weights, key=lambda i: (-logits[i], i))
    if params.top_k:
        order = order[: params.top_k]
    total, kept, mass = math.fsum(weights[i] for i in order), [], 0.0
    for i in order:
        if mass >= params.top_p * total:
            break
        kept.append(i)
        mass += weights[i]
    kept = [i for i in kept if weights[i] >= params.min_p]
    total = math.fsum(weights[i] for i in kept)
    return [weights[i] / total if i in kept else 0.0 for i in range(len(logits))]


def draw(logits: NDArray[np.float32], params: SamplingParams, position: int) -> int:
    """One token: greedy, or the Gumbel-max draw over the whole surviving vocabulary."""
    if params.temperature == 0:
        return max(range(len(logits)), key=lambda i: (logits[i], -i))
    allowed = probabilities([float(x) for x in logits], params)
    gumbel = KeyedNoise(params.seed, position).gumbel(np.arange(len(logits)))
    scores = [
        float(logits[i]) / params.temperature + gumbel[i] if allowed[i] else -math.inf
        for i in range(len(logits))
    ]
    return scores.index(max(scores))


def decode_over_tree(
    tree: TokenTree,
    logits: NDArray[np.float32],
    params: SamplingParams,
    base_len: int,
    num_remaining: int,
) -> tuple[list[int], list[int], FinishReason | None]:
    """Committed tokens, accepted nodes (from 1) and finish reason, one plain step at a time."""
    committed: list[int] = []
    accepted: list[int] = []
    node = 0
    while True:
        token = draw(logits[node], params, base_len + len(committed))
        committed.append(token)
        if token in params.stop_token_ids:
            return committed, accepted, FinishReason.STOP
        if len(committed) == num_remaining:
            return committed, accepted, FinishReason.LENGTH
        matching = [
            i + 1
            for i in range(len(tree))
            if tree.parents[i] == node and tree.token_ids[i] == token
        ]
        if not matching:
            return committed, accepted, None
        node = matching[0]
        accepted.append(node)
