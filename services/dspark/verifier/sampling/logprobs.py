"""How likely tokens are, by logits rows (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dspark.logprobs import TokenLogprobs
from dspark.verifier.sampling.filters import surviving_tokens
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.sampling.top_ids import top_ids

Logits = NDArray[np.float32]
Scores = NDArray[np.float32] | NDArray[np.float64]


class LogprobsMode(Protocol):
    """What the log-probabilities of a row are those of."""

    def __call__(self, logits: Logits, sampler: Sampler, path: Sequence[int]) -> Scores:
        """[vocab_size] unnormalised log-probabilities of the token that follows ``path``."""
        ...


def raw_scores(logits: Logits, sampler: Sampler, path: Sequence[int]) -> Scores:
    """The model's own distribution."""
    return logits


def processed_scores(logits: Logits, sampler: Sampler, path: Sequence[int]) -> Scores:
    """The distribution that tokens are drawn from: after processors, temperature and filters.

    Greedy decoding has no such distribution: it counts as temperature 1 without filters.
    """
    params = sampler.params
    processed = sampler.processed(logits, path)
    if params.temperature == 0:
        return processed
    scaled = processed.astype(np.float64) / params.temperature
    if (survivors := surviving_tokens(processed, params)) is None:
        return scaled
    masked = np.full_like(scaled, -np.inf)
    masked[survivors] = scaled[survivors]
    return masked


LOGPROBS_MODES: dict[str, LogprobsMode] = {"raw": raw_scores, "processed": processed_scores}


def token_logprobs(scores: Scores, token_id: int, num_top: int) -> TokenLogprobs:
    """Of a row's scores, which need not be normalised: that of a token, and the ``num_top`` best.

    Ties among the best go by lowest id.
    """
    largest = float(scores.max())
    total = np.exp(scores - scores.dtype.type(largest)).sum(dtype=np.float64)
    normaliser = largest + math.log(total)
    own = scores[token_id]
    best: list[int] = []
    if num_top:
        best = top_ids(scores[None], min(num_top, len(scores)))[0].tolist()
    return TokenLogprobs(
        logprob=float(own) - normaliser,
        rank=1 + int(np.count_nonzero(scores > own)),
        top_token_ids=tuple(best),
        top_logprobs=tuple(float(scores[i]) - normaliser for i in best),
    )


def run_logprobs(
    rows: Logits, token_ids: Sequence[int], sampler: Sampler, mode: LogprobsMode, num_top: int
) -> tuple[TokenLogprobs, ...]:
    """Those of a run of tokens, each drawn from its row of ``rows`` [len(token_ids), vocab_size]
    behind the tokens before it.
    """
    return tuple(
        token_logprobs(mode(row, sampler, token_ids[:place]), token_id, num_top)
        for place, (row, token_id) in enumerate(zip(rows, token_ids, strict=True))
    )
