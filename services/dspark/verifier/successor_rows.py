"""What the model holds for likely after the rows of a step, ranked once the step is answered.

A reply does not wait for it: nothing of the output depends on it, and candidates that learn of a
row one step later guess as well.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.sampling.top_ids import top_ids
from dspark.verifier.scheduled_work import ScheduledWork
from dspark.verifier.sequence import Sequence, SuccessorRows


class _Rows(NamedTuple):
    """The rows of the logits [num_logits, vocab_size] that end in ``end``, and their tokens."""

    sequence: Sequence
    token_ids: tuple[int, ...]
    end: int


_NO_LOGITS = np.empty((0, 0), dtype=np.float32)


class SuccessorRanking:
    """Holds the logits of the last step until they are ranked or dropped."""

    def __init__(self) -> None:
        self._rows: list[_Rows] = []
        self._logits: NDArray[np.float32] = _NO_LOGITS
        self._top_k = 0

    def drop(self) -> None:
        """Before the model runs again, which may overwrite the logits."""
        self._rows, self._logits = [], _NO_LOGITS

    def remember(
        self, entries: Seq[ScheduledWork], logits: NDArray[np.float32], top_k: int
    ) -> None:
        """Before the entries are committed; logits follow their order."""
        self._logits, self._top_k = logits, min(top_k, logits.shape[1])
        end = 0
        for entry in entries:
            end += entry.num_logits
            if entry.reaches_end:
                token_ids = int(entry.sequence.tokens.ids[-1]), *entry.tree.token_ids
                self._rows.append(_Rows(entry.sequence, token_ids, end))

    def rank(self) -> None:
        """Leave each sequence what its next result is to tell."""
        rows, logits = self._rows, self._logits
        self.drop()
        if not rows:
            return
        tops = top_ids(logits, self._top_k)
        for sequence, token_ids, end in rows:
            chosen = tops[end - len(token_ids) : end]
            sequence.successors = SuccessorRows(token_ids, tuple(chosen.ravel().tolist()))
