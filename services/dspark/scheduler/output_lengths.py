"""How many tokens requests are going to generate, learnt from those that ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from dspark.request_class import RequestClass
from dspark.scheduler.request import Request
from dspark.scheduler.stats import MovingAverage

# Before anything ended, so many requests count as having used all of their max_tokens.
PRIOR_WEIGHT = 4.0
DECAY = 0.97
FIRST_TOKENS = 128.0


@dataclass(slots=True)
class _Used:
    """Decayed sums over ended requests: how many, and what share of max_tokens they used."""

    weight: float = PRIOR_WEIGHT
    shares: float = PRIOR_WEIGHT

    def add(self, share: float) -> None:
        self.weight = self.weight * DECAY + 1.0
        self.shares = self.shares * DECAY + share


class OutputLengths:
    """Two estimates: of a whole output, which tells long requests from short ones before they
    start, and of what is left of one that may be under way.
    """

    def __init__(self) -> None:
        self._used: defaultdict[tuple[RequestClass, int], _Used] = defaultdict(_Used)
        self._typical = MovingAverage(FIRST_TOKENS)

    def observe(self, request: Request) -> None:
        """A request ended by itself."""
        share = request.num_generated_tokens / request.spec.sampling.max_tokens
        self._used[_kind(request)].add(min(share, 1.0))
        self._typical.add(request.num_generated_tokens)

    def expected(self, request: Request) -> int:
        """Tokens that the request is going to have generated at its end, at least one more.

        Clients tend to ask for much where they need little, each kind in its own way: it is the
        mean share of max_tokens that its class used, powers of two of max_tokens kept apart.
        """
        used = self._used.get(_kind(request))
        most = request.spec.sampling.max_tokens
        guess = most if used is None else round(most * used.shares / used.weight)
        return max(min(guess, most), request.num_generated_tokens + 1)

    def left(self, num_remaining: int) -> float:
        """Expected tokens of a request that may still generate so many.

        As many as one typically has, whatever it has got so far. Lengths are taken to be without
        memory: that is right for none and wrong for few, and a request never counts as one that is
        about to end.
        """
        return max(min(float(num_remaining), self._typical.value), 1.0)


def _kind(request: Request) -> tuple[RequestClass, int]:
    return request.spec.request_class, request.spec.sampling.max_tokens.bit_length()
