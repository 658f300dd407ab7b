"""``medusa``: heads that guess several places ahead from the target's own last hidden state.

Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads (Cai et al. 2024,
arXiv:2401.10774).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dspark.candidates.best_first import grow
from dspark.candidates.perturbed_top import DrawNoise
from dspark.candidates.safetensors_file import from_bfloat16
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.draft_heads import DraftHeads, Floats
from dspark.candidates.sources.head_guesses import TopLogits, probabilities, top_logits
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, SourceVitals
from dspark.features import FINAL_LAYER, Features
from dspark.token_tree import TokenTree

# Guesses below this probability are not worth a node anywhere.
MIN_SCORE = 0.01
CACHED_DRAWS = 256
_EMPTY = TokenTree((), (), (), (), ())


class MedusaSource(CandidateSource):
    """Best-first trees over all heads; one product of matrices for all requests of a batch."""

    name = "medusa"
    feature_layers = (FINAL_LAYER,)
    num_features = 1

    def __init__(self, heads: DraftHeads) -> None:
        self._heads = heads
        # By sequence, the position of a token and its hidden state [hidden_size].
        self._latest: dict[LiveSequence, tuple[int, Floats]] = {}
        self._noise = DrawNoise(heads.token_ids, CACHED_DRAWS)

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
        trees = [_EMPTY] * len(requests)
        if not ready:
            return trees
        sequences = [requests[place].sequence for place in ready]
        hidden = np.stack([self._latest[sequence][1] for sequence in sequences])
        anchors = np.array([sequence.token_ids[-1] for sequence in sequences], dtype=np.int64)
        logits = self._with_noise(self._heads.logits(hidden, anchors), sequences)
        top = top_logits(logits, self._heads.temperatures)
        for row, place in enumerate(ready):
            trees[place] = self._grow(requests[place], top, row)
        return trees

    def _with_noise(self, logits: Floats, sequences: Sequence[LiveSequence]) -> Floats:
        """[N, K, V'] plus the noise that the target draws with; see ``perturbed_top``."""
        for row, sequence in enumerate(sequences):
            for head in range(logits.shape[1]):
                logits[row, head] = self._noise.perturbed(
                    logits[row, head], sequence.temperature, sequence.seed, len(sequence) + head
                )
        return logits

    def _is_ready(self, request: DraftRequest) -> bool:
        sequence = request.sequence
        position, _ = self._latest.get(sequence, (-1, None))
        return (
            position == len(sequence) - 2 >= 0
            and sequence.token_ids[-1] < self._heads.vocab_size
            and request.max_nodes > 0
        )

    def _grow(self, request: DraftRequest, top: TopLogits, row: int) -> TokenTree:
        heads = self._heads
        columns, logits, covered = top.columns[row], top.logits[row], top.covered[row]
        token_ids = heads.token_ids[columns]

        def expand(previous: int, depth: int) -> Iterator[tuple[int, float, int]]:
            bias = heads.bias(previous, columns[depth])
            scaled = None if bias is None else bias / heads.temperatures[depth]
            scores = probabilities(logits[depth], covered[depth], scaled)
            for place in np.argsort(-scores, kind="stable").tolist():
                score = float(scores[place])
                if score < MIN_SCORE:
                    return
                token_id = int(token_ids[depth, place])
                yield token_id, score, token_id

        grown = grow(
            request.sequence.token_ids[-1],
            expand,
            max_nodes=request.max_nodes,
            max_depth=min(request.max_depth, len(columns)),
        )
        return grown.to_tree(self.name)
