"""What trained heads guess on texts that they never saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from dspark.training.draft_anchors import AnchorBatch, DraftAnchors
from dspark.training.guess_quality import Guesses
from dspark.training.medusa_model import MedusaModel

MAX_ANCHORS = 2048
BATCH = 256


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


def guesses_of(model: MedusaModel, batches: Sequence[AnchorBatch]) -> Iterator[Guesses]:
    """For each batch."""
    with torch.no_grad():
        for batch in batches:
            base, bias = model.base_logits(batch), model.bias(batch)
            yield Guesses(batch.labels, base.cpu().numpy(), bias.cpu().numpy())
