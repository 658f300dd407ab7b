"""How well trained networks guess on texts that they never saw, and how sure they may be of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.head_guesses import probabilities, top_logits

TEMPERATURES = tuple(round(0.7 + 0.1 * step, 1) for step in range(14))

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Guesses:
    """Of N anchors for K places each, over a draft vocabulary of V' tokens.

    ``base`` [N, K, V'] are the logits without the Markov ``bias`` [N, K, V'] of the true tokens
    before; ``labels`` [N, K] are rows of the vocabulary, and others for tokens outside it.
    """

    labels: NDArray[np.int64]
    base: Floats
    bias: Floats


def top1(guesses: Iterable[Guesses]) -> list[float]:
    """[K] the shares of labels that are guessed when the tokens before are the true ones.

    Labels outside the draft vocabulary are misses.
    """
    hits, count = np.zeros(1), 0
    for some in guesses:
        hits = hits + ((some.base + some.bias).argmax(axis=2) == some.labels).sum(axis=0)
        count += len(some.labels)
    return [round(float(share), 4) for share in hits / max(1, count)]


def fitted_temperatures(guesses: Iterable[Guesses]) -> Floats:
    """[K] of ``TEMPERATURES``, by each place's least log-loss as a source computes it."""
    losses = np.zeros((len(TEMPERATURES), 1))
    for some in guesses:
        losses = losses + np.stack([_log_loss(some, temperature) for temperature in TEMPERATURES])
    return np.array([TEMPERATURES[index] for index in losses.argmin(axis=0)], dtype=np.float32)


def _log_loss(guesses: Guesses, temperature: float) -> NDArray[np.float64]:
    """[K] summed over anchors; all tokens that are not among the likeliest are one outcome."""
    base, labels = guesses.base, guesses.labels
    top = top_logits(base, np.full(base.shape[1], temperature, dtype=np.float32))
    chosen = np.take_along_axis(guesses.bias, top.columns, axis=2) / np.float32(temperature)
    scores = probabilities(top.logits, top.covered[..., None], chosen)
    given = np.where(top.columns == labels[..., None], scores, 0).sum(axis=2)
    missed = ~(top.columns == labels[..., None]).any(axis=2)
    outcome = np.where(missed, 1 - top.covered, given)
    losses: NDArray[np.float64] = -np.log(np.maximum(outcome, 1e-4)).sum(axis=0, dtype=np.float64)
    return losses
