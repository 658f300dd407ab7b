"""What the target's known noise makes of guesses at one of its draws (pure).

The target draws ``argmax(logits + T * g)`` with noise ``g`` that seed, position and token decide.
So of a few tokens with known probabilities the noise says which of them it is going to be, if it is
one of them (coupling without communication, Daliri et al. 2024, arXiv:2408.07978). All others
together are one token with what probability is left, and with unknown noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from dspark.candidates.perturbed_top import is_drawn
from dspark.candidates.sequence import LiveSequence
from dspark.keyed_noise import KeyedNoise

State = TypeVar("State")

# Guesses are estimates, and the logarithms of their probabilities off by Gumbel distributed errors
# of about this scale: on texts drawn at 0.8 and 1.0 it makes the most tokens a pass of `ngram` and
# `suffix`, two to three in a hundred more than without noise, and probabilities that come true.
ERROR_SCALE = 2.0
# Others are never impossible.
MIN_REST = 0.02
# Positions whose noise is kept, of all requests.
NUM_DRAWS = 256


@dataclass(frozen=True, slots=True)
class KeyedDraws:
    """The draws of one request; ``first_position`` is that of the token after the anchor."""

    temperature: float
    seed: int
    first_position: int
    error_scale: float = ERROR_SCALE

    def rescored(
        self, guesses: Iterable[tuple[int, float, State]], depth: int
    ) -> list[tuple[int, float, State]]:
        """(token id, probability, state) of the draw ``depth`` places after the first one, given
        what was known of it without its noise; best first.
        """
        known = [guess for guess in guesses if guess[1] > 0]
        if not known:
            return []
        draw, temperature = _draw(self.seed, self.first_position + depth), self.temperature
        shares = [share for _, share, _ in known]
        values = [math.log(share) + temperature * draw[token_id] for token_id, share, _ in known]
        best = max(values)
        powers = [math.exp((value - best) / self.error_scale) for value in values]
        scale = self._chance_against_others(best, max(1 - sum(shares), MIN_REST)) / sum(powers)
        order = sorted(range(len(known)), key=lambda place: -values[place])
        return [(known[place][0], powers[place] * scale, known[place][2]) for place in order]

    def _chance_against_others(self, best: float, rest: float) -> float:
        """That ``log(rest)`` and a Gumbel draw stay below ``best``: of noise or of errors,
        whichever are larger.
        """
        scale = max(self.temperature, self.error_scale)
        return math.exp(-math.exp(min((math.log(rest) - best) / scale, 50.0)))


class _Draw(dict[int, float]):
    """The noise of one draw, of the tokens that were asked for."""

    def __init__(self, seed: int, position: int) -> None:
        super().__init__()
        self._noise = KeyedNoise(seed, position)

    def __missing__(self, token_id: int) -> float:
        gumbel = self[token_id] = self._noise.gumbel_of(token_id)
        return gumbel


# Sources guess the same tokens at the same positions, and so do the next steps.
_draw = lru_cache(NUM_DRAWS)(_Draw)


def draws_of(sequence: LiveSequence) -> KeyedDraws | None:
    """None for a request whose tokens are not drawn."""
    if not is_drawn(sequence.temperature):
        return None
    return KeyedDraws(sequence.temperature, sequence.seed, len(sequence))
