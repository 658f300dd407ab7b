"""From logits of draft heads to probabilities of the next token at each depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

WIDTH = 32


@dataclass(frozen=True, slots=True)
class TopLogits:
    """The ``WIDTH`` likeliest of each head, in no order; the leading axes are those of the logits.

    ``columns`` [..., width] of the draft vocabulary, ``logits`` [..., width] divided by the head's
    temperature, ``covered`` [...] the share of the softmax that falls to them.
    """

    columns: NDArray[np.int64]
    logits: Floats
    covered: Floats


def top_logits(logits: Floats, temperatures: Floats, width: int = WIDTH) -> TopLogits:
    """``logits`` [..., K, V'], ``temperatures`` [K]."""
    width = min(width, logits.shape[-1])
    columns = np.argpartition(logits, -width, axis=-1)[..., -width:]
    scaled = logits / temperatures[:, None]
    top = np.take_along_axis(scaled, columns, axis=-1)
    largest = top.max(axis=-1, keepdims=True)
    total = np.exp(scaled - largest).sum(axis=-1)
    covered = np.exp(top - largest).sum(axis=-1) / total
    return TopLogits(columns, top, np.minimum(covered, 1.0))


def probabilities(logits: Floats, covered: float | Floats, bias: Floats | None) -> Floats:
    """[..., width] the covered share, dealt out by the softmax of logits and bias."""
    values = logits if bias is None else logits + bias
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True) * covered, dtype=np.float32)
