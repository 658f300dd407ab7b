"""Places of texts at which draft heads learn: what they see there, and what comes after.

At an anchor in an answer a head sees the hidden state of the token before it and the anchor itself;
head k (from 0) learns the token k + 1 places after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.safetensors_file import from_bfloat16
from dspark.training.text_batches import NO_LABEL
from dspark.training.text_store import StoredText


@dataclass(frozen=True, slots=True)
class AnchorBatch:
    """``hidden`` float32 [N, H]; ``anchors`` int64 [N], as token ids; ``previous`` and ``labels``
    int64 [N, K], as rows of the draft vocabulary.

    ``previous`` has V' for tokens outside it, ``labels`` has NO_LABEL there and beyond the end.
    """

    hidden: NDArray[np.float32]
    anchors: NDArray[np.int64]
    previous: NDArray[np.int64]
    labels: NDArray[np.int64]


class DraftAnchors:
    """All anchors of some texts. ``layer`` is the place of the wanted layer in the features."""

    def __init__(
        self,
        texts: Sequence[StoredText],
        layer: int,
        token_ids: NDArray[np.int64],
        vocab_size: int,
        num_heads: int,
    ) -> None:
        self._texts, self._layer, self._num_heads = texts, layer, num_heads
        self._rows = np.full(vocab_size + 1, len(token_ids), dtype=np.int64)
        self._rows[token_ids] = np.arange(len(token_ids))
        self._outside = len(token_ids)
        # [num_anchors, 2]: the text and the place in it; the last token of a text is no anchor.
        places = [
            np.stack((np.full(len(span), index), span), axis=1)
            for index, text in enumerate(texts)
            for span in [np.arange(max(1, text.num_prompt_tokens), len(text.token_ids) - 1)]
        ]
        self.places = np.concatenate([np.empty((0, 2), dtype=np.int64), *places])

    def __len__(self) -> int:
        return len(self.places)

    def complete(self) -> NDArray[np.int64]:
        """Which anchors have a label for each head."""
        lengths = np.array([len(text.token_ids) for text in self._texts], dtype=np.int64)
        left = lengths[self.places[:, 0]] - self.places[:, 1]
        return np.flatnonzero(left > self._num_heads).astype(np.int64)

    def sample(self, count: int, seed: tuple[int, int]) -> AnchorBatch:
        """Anchors drawn with replacement, the same for the same seed."""
        chosen = np.random.default_rng(seed).integers(0, len(self.places), count)
        return self.batch(chosen)

    def batch(self, chosen: NDArray[np.int64]) -> AnchorBatch:
        """The anchors at these places of the list."""
        spans = np.arange(self._num_heads + 1)
        tokens = np.full((len(chosen), self._num_heads + 1), -1, dtype=np.int64)
        hidden = np.empty((len(chosen), self._texts[0].features.shape[2]), dtype=np.uint16)
        for row, (index, place) in enumerate(self.places[chosen].tolist()):
            text = self._texts[index]
            hidden[row] = text.features[place - 1, self._layer]
            window = text.token_ids[place : place + len(spans)]
            tokens[row, : len(window)] = window
        rows = np.where(tokens < 0, self._outside, self._rows[tokens])
        labels = np.where(rows[:, 1:] == self._outside, NO_LABEL, rows[:, 1:])
        return AnchorBatch(from_bfloat16(hidden), tokens[:, 0], rows[:, :-1], labels)
