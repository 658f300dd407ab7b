"""What the target held for likely at each place of a text, from its last hidden states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.safetensors_file import from_bfloat16
from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.ngram_counts import NgramText
from dspark.training.text_store import StoredText

WIDTH = 8


class LikelyTokens:
    """The target's LM head over the tokens that occur in texts; ``layer`` is the place of the last
    hidden state among the stored ones.
    """

    def __init__(self, target: TargetMatrices, texts: Sequence[StoredText], layer: int) -> None:
        occurring = [np.unique(text.token_ids) for text in texts]
        self._token_ids = np.unique(np.concatenate([np.zeros(1, np.uint32), *occurring]))
        self._head = torch.from_numpy(target.head_rows(self._token_ids.astype(np.int64)))
        self._layer = layer

    def of(self, text: StoredText) -> NgramText:
        """The answer, each place shared out among the ``WIDTH`` likeliest tokens."""
        start = max(1, text.num_prompt_tokens)
        hidden = torch.from_numpy(self._hidden(text, start))
        logits = hidden @ self._head.T
        top = logits.topk(min(WIDTH, logits.shape[1]), dim=1)
        shares = (top.values - logits.logsumexp(dim=1, keepdim=True)).exp()
        next_ids = self._token_ids[top.indices.numpy()]
        return NgramText(text.token_ids, start, next_ids, shares.numpy())

    def _hidden(self, text: StoredText, start: int) -> NDArray[np.float32]:
        """[len - start, hidden_size] at the token before each place."""
        return from_bfloat16(np.ascontiguousarray(text.features[start - 1 :, self._layer]))
