"""How long outputs are going to be, learnt from those that ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from dspark.request_class import RequestClass
from dspark.scheduler.request import Request

# Before anything ended, so many requests count as having used all of their max_tokens.
PRIOR_WEIGHT = 4.0
DECAY = 0.97


@dataclass(slots=True)
class _Used:
    """Decayed sums over ended requests: how many, and what share of max_tokens they used."""

    weight: float = PRIOR_WEIGHT
    shares: float = PRIOR_WEIGHT

    def add(self, share: float) -> None:
        self.weight = self.weight * DECAY + 1.0
        self.shares = self.shares * DECAY + share


class OutputLengths:
    """The mean share of max_tokens that is used, by class and size of max_tokens.

    Clients tend to ask for much where they need little, each kind in its own way, so powers of two
    of max_tokens are kept apart.
    """

    def __init__(self) -> None:
        self._used: defaultdict[tuple[RequestClass, int], _Used] = defaultdict(_Used)

    def expected(self, request: Request) -> int:
        """Tokens that the request is going to have generated at its end, at least one more."""
        used = self._used.get(_kind(request))
        most = request.spec.sampling.max_tokens
        guess = most if used is None else round(most * used.shares / used.weight)
        return max(min(guess, most), request.num_generated_tokens + 1)

    def observe(self, request: Request) -> None:
        """A request ended by itself."""
        share = request.num_generated_tokens / request.spec.sampling.max_tokens
        self._used[_kind(request)].add(min(share, 1.0))


def _kind(request: Request) -> tuple[RequestClass, int]:
    return request.spec.request_class, request.spec.sampling.max_tokens.bit_length()
