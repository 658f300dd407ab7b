"""Which tokens may be drawn: top-k, top-p and min-p, in this order, after temperature.

Each filter sees the distribution that the one before it left, renormalised. Ties go by lowest id,
so that a filter keeps exactly as many tokens as it says.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dspark.sampling import SamplingParams
from dspark.verifier.sampling.top_ids import top_ids

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]

# How far below the largest scaled logit top-p looks for its tokens before it looks everywhere.
_NUCLEUS_WIDTHS = (8.0, 20.0)


def surviving_tokens(logits: Logits, params: SamplingParams) -> Ids | None:
    """Ids that survive the filters, ascending; None means all of them."""
    ids: Ids | None = None
    if 0 < params.top_k < len(logits):
        ids = np.sort(top_ids(logits[None], params.top_k)[0])
    if params.top_p < 1.0:
        ids = keep_top_p(logits, ids, params.temperature, params.top_p)
    if params.min_p > 0.0:
        ids = keep_min_p(logits, ids, params.temperature, params.min_p)
    return ids


def keep_top_p(logits: Logits, ids: Ids | None, temperature: float, top_p: float) -> Ids:
    """The fewest most likely of ascending ``ids`` (None means all) that together reach p."""
    values = logits if ids is None else logits[ids]
    weights = _weights(values, temperature)
    wanted = top_p * float(weights.sum(dtype=np.float64))
    leading = _leading_part(weights, wanted)
    descending = np.sort(values[leading])[::-1]
    masses = np.cumsum(_weights(descending, temperature), dtype=np.float64)
    count = min(int(np.searchsorted(masses, wanted)) + 1, len(descending))
    kept = _largest(values[leading], count, descending[count - 1])
    return leading[kept] if ids is None else ids[leading[kept]]


def keep_min_p(logits: Logits, ids: Ids | None, temperature: float, min_p: float) -> Ids:
    """Those of ``ids`` (None means all) at least ``min_p`` times as likely as the likeliest."""
    threshold = np.float32(float(logits.max()) + temperature * math.log(min_p))
    if ids is None:
        return np.flatnonzero(logits >= threshold)
    return ids[logits[ids] >= threshold]


def _weights(logits: Logits, temperature: float) -> Logits:
    """Unnormalised probabilities; the largest is 1."""
    with np.errstate(over="ignore", under="ignore"):
        weights: Logits = np.exp((logits - logits.max()) / np.float32(max(temperature, 1e-30)))
    return weights


def _leading_part(weights: Logits, wanted: float) -> Ids:
    """Indices, ascending, of the largest weights, enough of them to weigh ``wanted``."""
    for width in _NUCLEUS_WIDTHS:
        indices = np.flatnonzero(weights >= np.float32(math.exp(-width)))
        if float(weights[indices].sum(dtype=np.float64)) > wanted:
            return indices
    return np.arange(len(weights))


def _largest(values: Logits, count: int, smallest: np.float32) -> Ids:
    """Indices, ascending, of the ``count`` largest values, of which ``smallest`` is the last."""
    above = np.flatnonzero(values > smallest)
    tied = np.flatnonzero(values == smallest)[: count - len(above)]
    return np.sort(np.concatenate([above, tied]))
