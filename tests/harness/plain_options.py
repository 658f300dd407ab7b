"""Sampling options written the slow and obvious way, over whole texts, to test the verifier's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dspark.sampling import FinishReason, SamplingParams
from harness.plain_sampling import draw, probabilities

NextLogits = Callable[[Sequence[int]], NDArray[np.float32]]
"""From a whole text to the model's logits for the token after it."""


def changed_logits(
    logits: NDArray[np.float32],
    prompt: Sequence[int],
    output: Sequence[int],
    params: SamplingParams,
    ends: frozenset[int],
) -> NDArray[np.float32]:
    """What is drawn from: penalties, then biases, then masks; token by token."""
    changed = logits.copy()
    one = np.float32
    for token in range(len(logits)):
        value = changed[token]
        if token in prompt or token in output:
            penalty = one(params.repetition_penalty)
            value = value / penalty if value > 0 else value * penalty
        value = value - one(params.frequency_penalty) * one(list(output).count(token))
        value = value - one(params.presence_penalty) * one(token in output)
        value = value + one(dict(params.logit_bias).get(token, 0.0))
        if params.allowed_token_ids and token not in params.allowed_token_ids:
            value = one(-np.inf)
        for word in params.bad_words:
            start = list(word[:-1])
            is_at_end = len(output) >= len(start) and list(output)[len(output) - len(start) :]
            if token == word[-1] and (not start or is_at_end == start):
                value = one(-np.inf)
        if token in ends and len(output) < params.min_tokens:
            value = one(-np.inf)
        changed[token] = value
    return changed


@dataclass
class PlainRun:
    """What plain decoding gives: tokens, and for each the logits before and after changes."""

    token_ids: list[int] = field(default_factory=list)
    raw: list[NDArray[np.float32]] = field(default_factory=list)
    changed: list[NDArray[np.float32]] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.LENGTH


def decode_plainly(
    next_logits: NextLogits,
    prompt: Sequence[int],
    params: SamplingParams,
    eos_token_ids: frozenset[int] = frozenset(),
) -> PlainRun:
    """One token at a time, from the whole text so far."""
    run = PlainRun()
    ends = params.stop_token_ids | (frozenset() if params.ignore_eos else eos_token_ids)
    while len(run.token_ids) < params.max_tokens:
        raw = next_logits([*prompt, *run.token_ids])
        changed = changed_logits(raw, prompt, run.token_ids, params, ends)
        run.raw.append(raw)
        run.changed.append(changed)
        run.token_ids.append(draw(changed, params, len(prompt) + len(run.token_ids)))
        if run.token_ids[-1] in ends:
            run.finish_reason = FinishReason.STOP
            break
    return run


def log_softmax(logits: Sequence[float]) -> list[float]:
    values = [float(x) for x in logits]
    largest = max(values)
    total = math.log(math.fsum(math.exp(x - largest) for x in values)) + largest
    return [x - total for x in values]


def drawn_log_probabilities(changed: NDArray[np.float32], params: SamplingParams) -> list[float]:
    """Of the distribution that tokens are drawn from; greedy counts as temperature 1."""
    values = [float(x) for x in changed]
    if params.temperature == 0:
        return log_softmax(values)
    return [math.log(p) if p else -math.inf for p in probabilities(values, params)]
