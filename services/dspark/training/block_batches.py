"""Blocks of texts from which the source ``block`` learns: what each sees, and what comes after.

Several blocks share one passage of a text, so that the hidden states of the passage are fused once
for all of them. A block at an anchor sees the anchor and hidden states of tokens before it; its
slot j (from 0) learns the token j + 1 places after the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.safetensors_file import from_bfloat16
from dspark.training.text_batches import NO_LABEL
from dspark.training.text_store import StoredText

MAX_PASSAGE = 384

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BlockBatch:
    """B passages of T tokens with A blocks of S slots each.

    ``features`` float32 [B, T, num_layers, hidden_size]; ``anchors`` int64 [B, A], places in the
    passage, and ``anchor_ids`` their tokens; ``previous`` and ``labels`` int64 [B, A, S], rows of
    the draft vocabulary. ``previous`` has V' for tokens outside it, ``labels`` has NO_LABEL there
    and beyond the end.
    """

    features: NDArray[np.float32]
    anchors: Integers
    anchor_ids: Integers
    previous: Integers
    labels: Integers

    def first_slots(self, num_slots: int) -> BlockBatch:
        """The beginnings of the same blocks."""
        previous, labels = self.previous[..., :num_slots], self.labels[..., :num_slots]
        return replace(self, previous=previous, labels=labels)


class Passage(NamedTuple):
    """Blocks at ``anchors``, which rise, of one of the texts from its token ``start`` on."""

    text: int
    start: int
    anchors: Integers


class BlockTexts:
    """Texts with blocks of ``num_slots`` that see ``window`` tokens.

    ``layers`` are the places of the wanted layers in the features, ``token_ids`` the draft
    vocabulary.
    """

    def __init__(
        self,
        texts: Sequence[StoredText],
        layers: Sequence[int],
        token_ids: Integers,
        vocab_size: int,
        num_slots: int,
        window: int,
    ) -> None:
        self._layers, self._num_slots, self._window = list(layers), num_slots, window
        self._rows = np.full(vocab_size + 1, len(token_ids), dtype=np.int64)
        self._rows[token_ids] = np.arange(len(token_ids))
        self._outside = len(token_ids)
        self._texts = [text for text in texts if _first_anchor(text) < len(text.token_ids) - 1]
        # The last token of a text is no anchor.
        counts = [len(text.token_ids) - 1 - _first_anchor(text) for text in self._texts]
        self._ends = np.cumsum(counts)

    def __len__(self) -> int:
        """Of anchors."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def sample(self, num_texts: int, num_anchors: int, seed: tuple[int, int]) -> BlockBatch:
        """Blocks of texts drawn in proportion to their anchors, the same for the same seed."""
        random = np.random.default_rng(seed)
        drawn = random.integers(0, len(self), num_texts)
        chosen = np.searchsorted(self._ends, drawn, side="right")
        passages: list[Passage] = []
        for index in chosen.tolist():
            text = self._texts[index]
            start = self._start_of(text, random)
            anchors = self._anchors_of(text, start)
            repeats = len(anchors) < num_anchors
            picked = random.choice(anchors, num_anchors, replace=repeats)
            passages.append(Passage(index, start, np.sort(picked)))
        return self.at(passages)

    def held_out(self, num_texts: int, num_anchors: int) -> list[BlockBatch]:
        """Blocks that do not reach beyond the end, evenly spread over each text, at some anchors
        twice if it has fewer.

        Raises ValueError where there is none.
        """
        passages: list[Passage] = []
        for index, text in enumerate(self._texts):
            start = max(0, _first_anchor(text) - self._window)
            anchors = self._anchors_of(text, start)
            complete = anchors[anchors < len(text.token_ids) - self._num_slots]
            if len(complete):
                spread = np.linspace(0, len(complete) - 1, num_anchors).astype(np.int64)
                passages.append(Passage(index, start, complete[spread]))
        if not passages:
            raise ValueError("the texts that are held out are too few or too short")
        starts = range(0, len(passages), num_texts)
        return [self.at(passages[at : at + num_texts]) for at in starts]

    def _start_of(self, text: StoredText, random: np.random.Generator) -> int:
        """No block sees more than a window before its anchor, and a passage is not endless."""
        first = max(0, _first_anchor(text) - self._window)
        return int(random.integers(first, max(first, len(text.token_ids) - MAX_PASSAGE) + 1))

    def _anchors_of(self, text: StoredText, start: int) -> Integers:
        first = max(_first_anchor(text), start + self._window if start else 0)
        end = min(len(text.token_ids) - 1, start + MAX_PASSAGE)
        return np.arange(first, end, dtype=np.int64)

    def at(self, passages: Sequence[Passage]) -> BlockBatch:
        """As many blocks of each passage."""
        length = max(int(anchors[-1]) - start for _, start, anchors in passages)
        hidden_size = self._texts[0].features.shape[2]
        shape = (len(passages), length, len(self._layers), hidden_size)
        features = np.zeros(shape, dtype=np.uint16)
        num_anchors = len(passages[0].anchors)
        tokens = np.full((len(passages), num_anchors, self._num_slots + 1), -1, dtype=np.int64)
        anchors = np.empty((len(passages), num_anchors), dtype=np.int64)
        for row, (index, start, places) in enumerate(passages):
            text = self._texts[index]
            seen = text.features[start : int(places[-1]), self._layers]
            features[row, : len(seen)] = seen
            anchors[row] = places - start
            padded = np.append(text.token_ids.astype(np.int64), np.full(self._num_slots, -1))
            tokens[row] = padded[places[:, None] + np.arange(self._num_slots + 1)]
        rows = np.where(tokens < 0, self._outside, self._rows[tokens])
        labels = np.where(rows[..., 1:] == self._outside, NO_LABEL, rows[..., 1:])
        return BlockBatch(from_bfloat16(features), anchors, tokens[..., 0], rows[..., :-1], labels)


def _first_anchor(text: StoredText) -> int:
    return max(1, text.num_prompt_tokens)
