"""What heads for several places ahead give, and two kinds of them.

Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads (Cai et al. 2024,
arXiv:2401.10774). R is the number of requests, K that of heads, H the hidden size, V' the size of
the draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.linear_layer import linear_layer
from dspark.candidates.target_matrices import TargetMatrices, rms_normalised

Floats = NDArray[np.float32]
TokenIds = NDArray[np.int64]


class DraftHeads(Protocol):
    """Head k (from 0) guesses the token k + 1 places after the anchor."""

    hidden_size: int
    vocab_size: int
    """The target's."""
    token_ids: TokenIds
    """[V'] the draft vocabulary."""
    temperatures: Floats
    """[K] what each head's logits are divided by, so that probabilities come true."""

    def logits(self, hidden: Floats, anchors: TokenIds) -> Floats:
        """[R, K, V'] from the hidden states [R, H] of the tokens before the anchors [R]."""
        ...

    def bias(self, previous: int, columns: TokenIds) -> Floats | None:
        """[num_columns] what is added to logits where ``previous`` is the token before; or None."""
        ...


@dataclass(frozen=True, slots=True)
class MarkovBias:
    """A low-rank bias on the next token: ``first`` [V' + 1, rank] by the token before, the last row
    for all that are not in the draft vocabulary; ``second`` [V', rank].
    """

    first: Floats
    second: Floats
    rows: dict[int, int]

    def of(self, previous: int, columns: TokenIds) -> Floats:
        row = self.first[self.rows.get(previous, -1)]
        return np.asarray(self.second[columns] @ row, dtype=np.float32)


class AnchoredHeads(DraftHeads):
    """Heads that also see the anchor's embedding and share the target's LM head.

    ``weight`` [K * H, 2 * H] and ``offset`` [K * H] have one residual block a head.
    """

    def __init__(
        self,
        target: TargetMatrices,
        token_ids: TokenIds,
        weight: Floats,
        offset: Floats,
        markov: tuple[Floats, Floats],
        temperatures: Floats,
    ) -> None:
        self.hidden_size, self.vocab_size = target.hidden_size, target.vocab_size
        self.token_ids, self.temperatures = token_ids, temperatures
        self._target = target
        self._blocks = linear_layer(weight, offset)
        self._head = linear_layer(target.head_rows(token_ids))
        rows = {int(token_id): row for row, token_id in enumerate(token_ids)}
        self._markov = MarkovBias(*markov, rows)

    def logits(self, hidden: Floats, anchors: TokenIds) -> Floats:
        num_heads = len(self.temperatures)
        embedded = rms_normalised(self._target.embedding_rows(anchors))
        inner = self._blocks(np.concatenate((hidden, embedded), axis=1))
        blocks = silu(inner).reshape(len(hidden), num_heads, self.hidden_size)
        states = (blocks + hidden[:, None]).reshape(-1, self.hidden_size)
        return self._head(states).reshape(len(hidden), num_heads, -1)

    def bias(self, previous: int, columns: TokenIds) -> Floats | None:
        return self._markov.of(previous, columns)


class PlainHeads(DraftHeads):
    """Heads as published: a residual block and a projection to the whole vocabulary each.

    ``blocks`` has weight [H, H] and offset [H] of each head, ``projections`` [V, H].
    """

    def __init__(self, blocks: list[tuple[Floats, Floats]], projections: list[Floats]) -> None:
        self.vocab_size, self.hidden_size = projections[0].shape
        self.token_ids = np.arange(self.vocab_size, dtype=np.int64)
        self.temperatures = np.ones(len(blocks), dtype=np.float32)
        self._blocks, self._projections = blocks, projections

    def logits(self, hidden: Floats, anchors: TokenIds) -> Floats:
        heads = zip(self._blocks, self._projections, strict=True)
        return np.stack(
            [
                (hidden + silu(hidden @ weight.T + offset)) @ projection.T
                for (weight, offset), projection in heads
            ],
            axis=1,
        )

    def bias(self, previous: int, columns: TokenIds) -> Floats | None:
        return None


def silu(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(values / (1 + np.exp(-values)), dtype=np.float32)
