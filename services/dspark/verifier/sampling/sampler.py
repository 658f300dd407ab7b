"""Draws one token from one logits row, as plain decoding does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise, bits_at_gumbel
from dspark.sampling import SamplingParams
from dspark.verifier.sampling.filters import surviving_tokens
from dspark.verifier.sampling.logits_processor import LogitsProcessor

Logits = NDArray[np.float32]
Ids = NDArray[np.int64]

# Tokens this close to the largest scaled logit are scored first; few others can still win.
_HEAD_WIDTH = 8.0


class BadLogits(Exception):
    """The model gave a row from which no token can be drawn (infinite or not a number)."""


class NoTokenLeft(BadLogits):
    """What the request asks for leaves no token to draw, though the model gave a good row."""


class Sampler:
    """The rule by which one sequence draws its tokens.

    Greedy is the largest logit, lowest id on ties, and uses no noise. Otherwise the token is
    ``argmax(logits / temperature + g)`` over the tokens that survive the filters, with ``g`` keyed
    Gumbel noise: an exact draw from their softmax (Gumbel-max).
    """

    def __init__(self, params: SamplingParams, processors: Sequence[LogitsProcessor] = ()) -> None:
        self.params = params
        self._processors = tuple(processors)

    def processed(self, logits: Logits, path: Sequence[int]) -> Logits:
        """What is drawn from: the logits themselves where nothing changes them, else a copy."""
        if self._processors:
            logits = logits.copy()
            for processor in self._processors:
                processor(logits, path)
        return logits

    def draw(self, logits: Logits, position: int, path: Sequence[int]) -> int:
        """The token at absolute ``position``, from logits [vocab_size]; raises BadLogits."""
        given, logits = logits, self.processed(logits, path)
        top = int(logits.argmax())
        if not np.isfinite(logits[top]):
            is_forbidden = np.isneginf(logits[top]) and np.isfinite(given.max())
            kind = NoTokenLeft if is_forbidden else BadLogits
            raise kind(f"the largest logit at position {position} is {logits[top]}")
        if self.params.temperature == 0.0:
            return top
        return self._draw_with_noise(logits, KeyedNoise(self.params.seed, position))

    def _draw_with_noise(self, logits: Logits, noise: KeyedNoise) -> int:
        survivors = surviving_tokens(logits, self.params)
        return perturbed_argmax(logits, survivors, self.params.temperature, noise)


def perturbed_argmax(logits: Logits, ids: Ids | None, temperature: float, noise: KeyedNoise) -> int:
    """``argmax(logits / temperature + gumbel)`` over ascending ``ids`` (None means all).

    A token outside the head needs a certain amount of noise to beat the head's best, and its raw
    bits tell whether it can have that; so logarithms are taken of few tokens only.
    """
    values = logits if ids is None else logits[ids]
    head_floor = np.float32(float(values.max()) - _HEAD_WIDTH * temperature)
    head = _select(ids, np.flatnonzero(values >= head_floor))
    best = _best(logits, head, temperature, noise)
    if len(head) == len(values):
        return best[1]
    scaled_floor = float(head_floor) / temperature
    needed = -best[0] - scaled_floor
    threshold = bits_at_gumbel(needed - 1e-6 - 1e-12 * abs(scaled_floor))
    if threshold is None:
        return best[1]
    bits = noise.bits_of_all(len(logits)) if ids is None else noise.bits(ids)
    rivals = _select(ids, np.flatnonzero(bits >= np.uint64(threshold)))
    return min(best, _best(logits, rivals, temperature, noise))[1] if len(rivals) else best[1]


def _select(ids: Ids | None, indices: Ids) -> Ids:
    return indices if ids is None else ids[indices]


def _best(logits: Logits, ids: Ids, temperature: float, noise: KeyedNoise) -> tuple[float, int]:
    """(negated score, token) of the best of ascending ``ids``: the smaller tuple wins."""
    scores = logits[ids].astype(np.float64) / temperature + noise.gumbel(ids)
    winner = int(scores.argmax())
    return -float(scores[winner]), int(ids[winner])
