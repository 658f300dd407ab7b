"""How often tokens stand in a sequence, kept up with as it grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.sampling.history import History


class TokenCounts:
    """Counts the tokens of the output, and notes those of the prompt if ``with_prompt``.

    Only tokens that occur have an entry: a row costs as much as the text has different tokens.
    """

    def __init__(self, history: History, *, with_prompt: bool) -> None:
        self._history = history
        self._places: dict[int, int] = {}
        self._ids: list[int] = []
        self._counts: list[int] = []
        self._num_seen = history.num_prompt_tokens
        if with_prompt:
            for token_id in history.tokens.ids[: history.num_prompt_tokens].tolist():
                self._place_of(token_id)
        self._arrays = self._as_arrays()

    def along(self, path: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids [num_different], each once, and how often the output and then ``path`` have each."""
        self._catch_up()
        ids, counts = self._arrays
        new = list(dict.fromkeys(token for token in path if token not in self._places))
        places = {token: len(ids) + place for place, token in enumerate(new)}
        ids = np.concatenate([ids, np.array(new, dtype=np.int64)])
        counts = np.concatenate([counts, np.zeros(len(new), dtype=np.float32)])
        for token in path:
            counts[places[token] if token in places else self._places[token]] += 1
        return ids, counts

    def _catch_up(self) -> None:
        tokens = self._history.tokens
        if len(tokens) == self._num_seen:
            return
        for token_id in tokens.ids[self._num_seen :].tolist():
            self._counts[self._place_of(token_id)] += 1
        self._num_seen = len(tokens)
        self._arrays = self._as_arrays()

    def _as_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return np.array(self._ids, dtype=np.int64), np.array(self._counts, dtype=np.float32)

    def _place_of(self, token_id: int) -> int:
        place = self._places.setdefault(token_id, len(self._ids))
        if place == len(self._ids):
            self._ids.append(token_id)
            self._counts.append(0)
        return place
