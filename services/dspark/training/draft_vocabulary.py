"""The tokens that draft heads can guess: the most frequent ones of the training texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.training.text_store import StoredText

MAX_IDS = 8192


def draft_vocabulary(
    texts: Sequence[StoredText],
    vocab_size: int,
    special_ids: Iterable[int],
    max_ids: int = MAX_IDS,
) -> NDArray[np.int64]:
    """Ascending ids: those most frequent in answers, and all special ones that occur anywhere."""
    answers = np.zeros(vocab_size, dtype=np.int64)
    occurs = np.zeros(vocab_size, dtype=bool)
    for text in texts:
        np.add.at(answers, text.token_ids[text.num_prompt_tokens :].astype(np.int64), 1)
        occurs[text.token_ids.astype(np.int64)] = True
    special = [i for i in special_ids if i < vocab_size and occurs[i]]
    answers[special] = answers.max() + 1
    order = np.argsort(-answers, kind="stable")[:max_ids]
    return np.sort(order[answers[order] > 0]).astype(np.int64)
