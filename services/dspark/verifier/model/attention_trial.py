"""Tries a way of running the model on its device before anything relies on it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch
from dspark.verifier.model.target_model import TargetModel

_LENGTH = 20
# Of the largest logit: what two orders of rounding may differ by.
_TOLERANCES = {torch.float32: 1e-3}
_TOLERANCE = 0.05


def problem_with(
    candidate: TargetModel, reference: TargetModel, kv_cache: KvCache, *, is_exact: bool = False
) -> str | None:
    """Why the candidate cannot be used: what it raised, or how far its logits are off.

    Both are one model in two ways of running, equal to the bit if ``is_exact``. Writes to the
    first blocks of the pool.
    """
    expected = _logits(reference, kv_cache)
    try:
        logits = _logits(candidate, kv_cache)
    # Compilers and drivers raise what they like.
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    largest = float(np.abs(expected).max())
    difference = float(np.abs(logits - expected).max()) / max(largest, 1e-6)
    tolerance = 0.0 if is_exact else _TOLERANCES.get(kv_cache.dtype, _TOLERANCE)
    if difference <= tolerance:
        return None
    return f"its logits differ from the expected ones by {difference:.1%}"


def _logits(model: TargetModel, kv_cache: KvCache) -> NDArray[np.float32]:
    """A prompt in one pass, then a token and a small tree after it in another."""
    size = kv_cache.block_size
    tokens = [(7919 * i + 13) % model.vocab_size for i in range(_LENGTH)]
    prompt = plain_rows(tokens, range(_LENGTH))
    first = model.forward(probe_batch(prompt[:-1], [0, _LENGTH - 2], size), kv_cache).copy()
    prefix = tuple(range(_LENGTH))
    free = range(_LENGTH, _LENGTH + 3)
    tree = [
        prompt[-1],
        ProbeRow(tokens[0], prefix, (free[0],)),
        ProbeRow(tokens[1], prefix, (free[0], free[1])),
        ProbeRow(tokens[2], prefix, (free[2],)),
    ]
    second = model.forward(probe_batch(tree, range(len(tree)), size), kv_cache).copy()
    return np.concatenate((first, second))
