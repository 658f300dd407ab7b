"""Whole texts as batches for a causal model: what it reads, and what it learns to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.training.text_store import StoredText

NO_LABEL = -100


@dataclass(frozen=True, slots=True)
class TextBatch:
    """All [num_texts, longest]; texts are padded at their end.

    ``token_ids`` int64; ``labels`` int64 has the next token where that belongs to the answer, else
    NO_LABEL.
    """

    token_ids: NDArray[np.int64]
    labels: NDArray[np.int64]


class TextBatches:
    """Texts of which at least one token can be learnt, each cut to ``max_tokens``."""

    def __init__(self, texts: Sequence[StoredText], max_tokens: int) -> None:
        self._texts = [
            text for text in texts if max(1, text.num_prompt_tokens) < len(text.token_ids)
        ]
        self._max_tokens = max_tokens

    def __len__(self) -> int:
        return len(self._texts)

    def sample(self, count: int, seed: tuple[int, int]) -> TextBatch:
        """Texts drawn with replacement, the same for the same seed."""
        chosen = np.random.default_rng(seed).integers(0, len(self._texts), count)
        return self.batch(chosen.tolist())

    def batch(self, chosen: Sequence[int]) -> TextBatch:
        """The texts at these places; of one that is too long, its end."""
        cut = [self._cut(self._texts[index]) for index in chosen]
        shape = (len(cut), max(len(tokens) - 1 for tokens, _ in cut))
        token_ids = np.zeros(shape, dtype=np.int64)
        labels = np.full(shape, NO_LABEL, dtype=np.int64)
        for row, (tokens, first) in enumerate(cut):
            length = len(tokens) - 1
            token_ids[row, :length] = tokens[:-1]
            labels[row, first - 1 : length] = tokens[first:]
        return TextBatch(token_ids, labels)

    def _cut(self, text: StoredText) -> tuple[NDArray[np.int64], int]:
        """The tokens, and the place of the first one to learn."""
        start = max(0, len(text.token_ids) - self._max_tokens)
        tokens = np.asarray(text.token_ids[start:], dtype=np.int64)
        return tokens, max(1, text.num_prompt_tokens - start)
