"""The likeliest picks of a target that draws with keyed noise, from a drafter's logits (pure).

The target takes ``argmax(logits / temperature + g)`` with noise ``g`` that depends on seed,
position and token alone. A drafter that adds the same noise to its own logits is coupled to those
draws (Daliri et al. 2024, arXiv:2408.07978), and the best of the sum are a tree's natural siblings.

How sure is the best? Say that the target's logits are the drafter's plus errors of their own,
Gumbel distributed with scale b. Then the target's pick is token i with the probability
``softmax((logits + temperature * g) / b)``: at temperature 0 the usual calibration by a
temperature, above it the same with known noise. So b, the ``error_scale``, is one number a drafter
at all temperatures; it is fitted on texts that the target wrote.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

# Tokens so many error scales below the best have no share worth counting.
_NEGLIGIBLE = 18.0
# Most positions of a round's trees come again in the next round.
_KEPT = 64


def is_drawn(temperature: float) -> bool:
    """Whether tokens are drawn with noise at all."""
    return 0.0 < temperature < math.inf


class DrawNoise:
    """The noise of the target's latest draws, over the ``token_ids`` int64 [V'] of a drafter.

    The last ``num_kept`` are kept, as trees of one round after the other reach the same positions.
    """

    def __init__(self, token_ids: Ids, num_kept: int = _KEPT) -> None:
        self._token_ids = token_ids
        self.num_ids = len(token_ids)
        self._at = lru_cache(num_kept)(self._draw)

    def perturbed(self, logits: Floats, temperature: float, seed: int, position: int) -> Floats:
        """``logits + temperature * g`` [V'] of the draw at ``position``; greedy: the logits."""
        if not is_drawn(temperature):
            return logits
        noise = self._at(seed, position)
        return np.asarray(logits + np.float32(temperature) * noise, dtype=np.float32)

    def _draw(self, seed: int, position: int) -> Floats:
        return KeyedNoise(seed, position).gumbel(self._token_ids).astype(np.float32)


def top_scores(values: Floats, error_scale: float, count: int) -> tuple[Ids, Floats]:
    """The places of the ``count`` best of ``values`` [V'], best first, and their probabilities.

    ``values`` are (perturbed) logits. Of equal ones the first leads, as the target has it.
    """
    best = float(values.max(initial=-math.inf))
    if not math.isfinite(best):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    ids = np.flatnonzero(values >= np.float32(best - _NEGLIGIBLE * error_scale))
    near = values[ids]
    powers = np.exp((near - np.float32(best)) / np.float32(error_scale))
    total = float(powers.sum(dtype=np.float64))
    if len(ids) > 2 * count:
        least = np.partition(near, len(near) - count)[len(near) - count]
        chosen = np.flatnonzero(near >= least)
        ids, near, powers = ids[chosen], near[chosen], powers[chosen]
    order = np.argsort(-near, kind="stable")[:count]
    return ids[order], np.asarray(powers[order] / total, dtype=np.float32)
