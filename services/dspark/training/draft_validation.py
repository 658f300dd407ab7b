"""How well a trained draft model guesses on texts that it never saw, and how far it is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from dspark.training.draft_student import DraftStudent
from dspark.training.text_batches import NO_LABEL, TextBatch, TextBatches

MAX_TEXTS = 20
BATCH = 4
ERROR_SCALES = tuple(round(0.5 + 0.1 * step, 1) for step in range(21))


def held_out_batches(texts: TextBatches) -> list[TextBatch]:
    """At most ``MAX_TEXTS``. Raises ValueError where there is none."""
    count = min(MAX_TEXTS, len(texts))
    if not count:
        raise ValueError("the texts that are held out are too few or too short")
    places = range(count)
    return [texts.batch(places[at : at + BATCH]) for at in range(0, count, BATCH)]


def top1(student: DraftStudent, batches: Sequence[TextBatch]) -> float:
    """The share of answer tokens that are the student's likeliest, after the true ones before.

    Labels outside the draft vocabulary are misses.
    """
    hits, count = 0, 0
    for logits, labels in _logits(student, batches):
        hits += int((logits.argmax(dim=1) == labels).sum())
        count += len(labels)
    return round(hits / count, 4)


def fitted_error_scale(student: DraftStudent, batches: Sequence[TextBatch]) -> float:
    """Of ``ERROR_SCALES``, that of the least log-loss; see ``dspark.candidates.perturbed_top``.

    The texts' noise is not known any more, so tokens that were drawn count like the target's
    likeliest ones, and the scale errs on the cautious side.
    """
    losses = [0.0] * len(ERROR_SCALES)
    for logits, labels in _logits(student, batches):
        for index, scale in enumerate(ERROR_SCALES):
            total = functional.cross_entropy(
                logits / scale, labels, ignore_index=NO_LABEL, reduction="sum"
            )
            losses[index] += float(total)
    return ERROR_SCALES[losses.index(min(losses))]


def _logits(student: DraftStudent, batches: Sequence[TextBatch]) -> Iterator[tuple[Tensor, Tensor]]:
    with torch.no_grad():
        for batch in batches:
            yield student.answer_logits(batch)
