"""``medusa``: heads that guess several places ahead from the target's own last hidden state.

Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads (Cai et al. 2024,
arXiv:2401.10774).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dspark.candidates.linear_layer import compute_on_one_thread
from dspark.candidates.perturbed_top import DrawNoise
from dspark.candidates.safetensors_file import from_bfloat16
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.draft_heads import DraftHeads, Floats
from dspark.candidates.sources.draw_noise import KEPT_DRAWS, noise_ahead
from dspark.candidates.sources.guess_tree import guess_tree
from dspark.candidates.sources.head_guesses import top_logits
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.features import FINAL_LAYER, Features
from dspark.token_tree import TokenTree


class MedusaSource(CandidateSource):
    """Best-first trees over all heads; one product of matrices for all requests of a batch."""

    name = "medusa"
    feature_layers = (FINAL_LAYER,)
    num_features = 1

    def __init__(self, heads: DraftHeads) -> None:
        self._heads = heads
        # By sequence, the position of a token and its hidden state [hidden_size].
        self._latest: dict[LiveSequence, tuple[int, Floats]] = {}
        self._noise = DrawNoise(heads.token_ids, KEPT_DRAWS)

    async def start(self) -> None:
        compute_on_one_thread()

    def vitals(self) -> SourceVitals:
        return SourceVitals(len(self._latest))

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        """Raises ValueError for features of another shape than the heads were made for."""
        num_tokens, num_layers, hidden_size = features.shape
        if num_layers != 1 or hidden_size != self._heads.hidden_size:
            raise ValueError(f"features {features.shape} do not fit {self._heads.hidden_size}")
        if num_tokens:
            row = np.frombuffer(features.data, dtype="<u2")[-hidden_size:]
            position = features.first_position + num_tokens - 1
            self._latest[sequence] = position, from_bfloat16(row)

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        self._latest.pop(sequence, None)

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        """A request whose latest token before the anchor has no hidden state gets no guess."""
        ready = [place for place, request in enumerate(requests) if self._is_ready(request)]
        trees = [TokenTree()] * len(requests)
        if not ready:
            return trees
        sequences = [requests[place].sequence for place in ready]
        hidden = np.stack([self._latest[sequence][1] for sequence in sequences])
        anchors = np.array([sequence.token_ids[-1] for sequence in sequences], dtype=np.int64)
        heads, temperatures = self._heads, self._heads.temperatures
        logits = heads.logits(hidden, anchors)
        noise = noise_ahead(self._noise, sequences, len(temperatures))
        top = top_logits(logits if noise is None else logits + noise, temperatures)
        for row, place in enumerate(ready):
            trees[place] = guess_tree(
                self.name, requests[place], top, row, heads.token_ids, heads.bias, temperatures
            )
        return trees

    def _is_ready(self, request: DraftRequest) -> bool:
        sequence = request.sequence
        position, _ = self._latest.get(sequence, (-1, None))
        return (
            position == len(sequence) - 2 >= 0
            and sequence.token_ids[-1] < self._heads.vocab_size
            and request.max_nodes > 0
        )
