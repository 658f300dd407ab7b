"""How likely tokens were, as plain values (wire form: sampling.proto)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of one token's probability and of the most likely ones in its place.

    ``rank`` is one plus the number of tokens that were more likely. ``top_token_ids`` are as many
    as were asked for, most likely first; one that could not be drawn has minus infinity.
    """

    logprob: float
    rank: int
    top_token_ids: tuple[int, ...] = ()
    top_logprobs: tuple[float, ...] = ()
