"""The tree of one request over the guesses of draft heads, or of slots, for each place ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.best_first import grow
from dspark.candidates.sources.head_guesses import TopLogits, probabilities
from dspark.candidates.sources.interface import DraftRequest
from dspark.token_tree import TokenTree

# Guesses below this probability are not worth a node anywhere.
MIN_SCORE = 0.01

Floats = NDArray[np.float32]
Bias = Callable[[int, NDArray[np.int64]], Floats | None]


def guess_tree(
    source: str,
    request: DraftRequest,
    top: TopLogits,
    row: int,
    token_ids: NDArray[np.int64],
    bias: Bias,
    temperatures: Floats,
) -> TokenTree:
    """Best-first over ``row`` of ``top``, whose columns are of the draft vocabulary ``token_ids``.

    ``bias(previous, columns)`` is added to logits of ``columns`` after the token ``previous``, and
    divided by ``temperatures`` [K] as the logits are.
    """
    columns, logits, covered = top.columns[row], top.logits[row], top.covered[row]
    chosen = token_ids[columns]

    def expand(previous: int, depth: int) -> Iterator[tuple[int, float, int]]:
        added = bias(previous, columns[depth])
        scaled = None if added is None else added / temperatures[depth]
        scores = probabilities(logits[depth], covered[depth], scaled)
        for place in np.argsort(-scores, kind="stable").tolist():
            score = float(scores[place])
            if score < MIN_SCORE:
                return
            token_id = int(chosen[depth, place])
            yield token_id, score, token_id

    grown = grow(
        request.sequence.token_ids[-1],
        expand,
        max_nodes=request.max_nodes,
        min_survival=request.floor,
        max_depth=min(request.max_depth, len(columns)),
    )
    return grown.to_tree(source)
