"""How well trained heads guess on texts that they never saw, and how sure they may be of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.sources.head_guesses import probabilities, top_logits
from dspark.training.draft_anchors import AnchorBatch, DraftAnchors
from dspark.training.medusa_model import MedusaModel

MAX_ANCHORS = 2048
BATCH = 256
FITTED_BATCHES = 3
TEMPERATURES = tuple(round(0.7 + 0.1 * step, 1) for step in range(14))

Floats = NDArray[np.float32]


def held_out_batches(anchors: DraftAnchors) -> list[AnchorBatch]:
    """At most ``MAX_ANCHORS``, evenly spread over those with a label for each head.

    Raises ValueError where there is none.
    """
    complete = anchors.complete()
    if not len(complete):
        raise ValueError("the texts that are held out are too few or too short")
    spread = np.linspace(0, len(complete) - 1, min(MAX_ANCHORS, len(complete))).astype(np.int64)
    chosen = complete[spread]
    return [anchors.batch(chosen[at : at + BATCH]) for at in range(0, len(chosen), BATCH)]


def top1(model: MedusaModel, batches: Sequence[AnchorBatch]) -> list[float]:
    """By head, the share of labels that it guesses when the tokens before are the true ones.

    Labels outside the draft vocabulary are misses.
    """
    hits, count = np.zeros(model.num_heads), 0
    for batch, base, bias in _logits(model, batches):
        hits += ((base + bias).argmax(axis=2) == batch.labels).sum(axis=0)
        count += len(batch.labels)
    return [round(float(share), 4) for share in hits / max(1, count)]


def fitted_temperatures(model: MedusaModel, batches: Sequence[AnchorBatch]) -> Floats:
    """[K] of ``TEMPERATURES``, by each head's least log-loss as the source computes it."""
    batches = batches[:: max(1, len(batches) // FITTED_BATCHES)]
    losses = np.zeros((len(TEMPERATURES), model.num_heads))
    for batch, base, bias in _logits(model, batches):
        for index, temperature in enumerate(TEMPERATURES):
            losses[index] += _log_loss(base, bias, batch.labels, temperature)
    return np.array([TEMPERATURES[index] for index in losses.argmin(axis=0)], dtype=np.float32)


def _log_loss(
    base: Floats, bias: Floats, labels: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """[K] summed over the batch; all tokens that are not among the likeliest are one outcome."""
    top = top_logits(base, np.full(base.shape[1], temperature, dtype=np.float32))
    chosen = np.take_along_axis(bias, top.columns, axis=2) / np.float32(temperature)
    scores = probabilities(top.logits, top.covered[..., None], chosen)
    given = np.where(top.columns == labels[..., None], scores, 0).sum(axis=2)
    missed = ~(top.columns == labels[..., None]).any(axis=2)
    outcome = np.where(missed, 1 - top.covered, given)
    losses: NDArray[np.float64] = -np.log(np.maximum(outcome, 1e-4)).sum(axis=0, dtype=np.float64)
    return losses


def _logits(
    model: MedusaModel, batches: Sequence[AnchorBatch]
) -> Iterator[tuple[AnchorBatch, Floats, Floats]]:
    """Each batch with its logits and the Markov bias, [N, K, V']."""
    with torch.no_grad():
        for batch in batches:
            base, bias = model.base_logits(batch), model.bias(batch)
            yield batch, base.cpu().numpy(), bias.cpu().numpy()
