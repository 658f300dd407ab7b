"""``block``: a small network drafts a block of several tokens in one pass.

It attends to hidden states of the target, after DSpark (DeepSeek 2026, arXiv:2607.05147).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from dspark.candidates.linear_layer import compute_on_one_thread
from dspark.candidates.perturbed_top import DrawNoise
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.block.context_window import ContextWindow
from dspark.candidates.sources.block.drafter import Anchor, BlockDrafter
from dspark.candidates.sources.draw_noise import KEPT_DRAWS, noise_ahead
from dspark.candidates.sources.guess_tree import guess_tree
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.features import Features
from dspark.token_tree import TokenTree

# Share by which a call moves the average of what a request takes.
_WEIGHT = 0.1


class BlockSource(CandidateSource):
    """Best-first trees over the slots of a block; one pass for all requests of a batch."""

    name = "block"

    def __init__(self, drafter: BlockDrafter) -> None:
        self._drafter = drafter
        self.feature_layers = drafter.layers
        self.num_features = drafter.sizes.window
        self._noise = DrawNoise(drafter.token_ids, KEPT_DRAWS)
        self._windows: dict[LiveSequence, ContextWindow] = {}
        self._seconds_a_request = 0.0
        self._turn = 0

    async def start(self) -> None:
        compute_on_one_thread()

    def vitals(self) -> SourceVitals:
        return SourceVitals(len(self._windows))

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        """Raises ValueError for features of another shape than the network was made for."""
        sizes = self._drafter.sizes
        num_tokens, *shape = features.shape
        if tuple(shape) != (sizes.num_features, sizes.hidden_size):
            wanted = f"{sizes.num_features} layers of {sizes.hidden_size}"
            raise ValueError(f"features {features.shape} do not fit {wanted}")
        if num_tokens:
            window = self._windows.get(sequence) or self._drafter.new_window()
            self._windows[sequence] = window
            rows = np.frombuffer(features.data, dtype="<u2").reshape(features.shape)
            window.add(features.first_position, rows)

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        self._windows.pop(sequence, None)

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        """A request whose latest token before the anchor has no features gets no guess, and none
        do those that there is no time for.
        """
        ready = [place for place, request in enumerate(requests) if self._is_ready(request)]
        ready = self._in_time(ready, deadline)
        trees = [TokenTree()] * len(requests)
        if not ready:
            return trees
        started = time.monotonic()
        drafter = self._drafter
        depth = min(drafter.sizes.num_slots, max(requests[place].max_depth for place in ready))
        anchors = [self._anchor(requests[place].sequence) for place in ready]
        temperatures = drafter.temperatures[:depth]
        sequences = [requests[place].sequence for place in ready]
        top = drafter.top(anchors, depth, noise_ahead(self._noise, sequences, depth))
        for row, place in enumerate(ready):
            trees[place] = guess_tree(
                self.name, requests[place], top, row, drafter.token_ids, drafter.bias, temperatures
            )
        seconds = (time.monotonic() - started) / len(ready)
        known = self._seconds_a_request or seconds
        self._seconds_a_request = known + _WEIGHT * (seconds - known)
        return trees

    def _in_time(self, ready: list[int], deadline: float) -> list[int]:
        """As many as the time allows, at least one, in turns: each call leaves out others."""
        seconds = self._seconds_a_request
        left = deadline - time.monotonic()
        most = max(1, int(left / seconds)) if seconds and math.isfinite(left) else len(ready)
        if most >= len(ready):
            return ready
        self._turn = (self._turn + most) % len(ready)
        return (ready[self._turn :] + ready[: self._turn])[:most]

    def _is_ready(self, request: DraftRequest) -> bool:
        sequence = request.sequence
        window = self._windows.get(sequence)
        return (
            window is not None
            and window.end == len(sequence) - 1 > 0
            and sequence.token_ids[-1] < self._drafter.vocab_size
            and request.max_nodes > 0
            and request.max_depth > 0
        )

    def _anchor(self, sequence: LiveSequence) -> Anchor:
        return Anchor(sequence.token_ids[-1], len(sequence) - 1, self._windows[sequence])
