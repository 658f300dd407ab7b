"""A source that plays a script, and checks the features it has whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import DraftRequest
from dspark.features import Features
from dspark.token_tree import TokenTree
from harness.scripted_drafters import Script
from harness.scripted_sources import ScriptedSource, Truth

Expected = Callable[[Sequence[int], int], NDArray[np.float32]]
"""From tokens and a layer to the features, [hidden_size], of the last of the tokens."""


class FeatureWatcher(ScriptedSource):
    """Wants features of ``num_features`` tokens in ``feature_layers``.

    ``problems`` says for each tree that was asked for without the features of the last computed
    token, or with other ones, what there was.
    """

    def __init__(
        self,
        script: Script,
        truth: Truth,
        vocab_size: int,
        expected: Expected,
        feature_layers: tuple[int, ...] = (2, 0),
        num_features: int = 1,
    ) -> None:
        super().__init__("watcher", script, truth, vocab_size)
        self.feature_layers = feature_layers
        self.num_features = num_features
        self._expected = expected
        self._latest: dict[LiveSequence, Features] = {}
        self.num_asked = 0
        self.epochs: set[tuple[str, int]] = set()
        self.problems: list[str] = []

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        assert features.shape[0] <= self.num_features
        self._latest[sequence] = features
        self._check(sequence, features)

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        self._latest.pop(sequence, None)

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> Sequence[TokenTree]:
        for request in requests:
            self.num_asked += 1
            sequence = request.sequence
            self.epochs.add((sequence.request_id, sequence.epoch))
            latest = self._latest.get(sequence)
            # The anchor itself is not computed yet.
            if latest is None or latest.end != len(sequence) - 1:
                end = None if latest is None else latest.end
                self.problems.append(f"{sequence.request_id}: {end} of {len(sequence)}")
        return [self._play(request) for request in requests]

    def _check(self, sequence: LiveSequence, features: Features) -> None:
        bits = np.frombuffer(features.data, dtype="<u2").astype(np.uint32) << 16
        values = bits.view(np.float32).reshape(features.shape)
        for index, position in enumerate(range(features.first_position, features.end)):
            tokens = sequence.token_ids[: position + 1]
            wanted = [self._expected(tokens, layer) for layer in self.feature_layers]
            if not np.array_equal(values[index], np.stack(wanted)):
                self.problems.append(f"{sequence.request_id}: not those of token {position}")
