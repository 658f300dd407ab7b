"""How many tokens requests are expected to generate, by those that have ended."""

from __future__ import annotations

from dspark.scheduler.request import Request
from dspark.scheduler.stats import MovingAverage

FIRST_TOKENS = 128.0


class OutputLengths:
    """A request has as many tokens before it as one typically has, whatever it has got so far.

    Lengths are taken to be without memory: that is right for none and wrong for few, and a request
    never counts as one that is about to end.
    """

    def __init__(self) -> None:
        self._typical = MovingAverage(FIRST_TOKENS)

    def observe(self, request: Request) -> None:
        """Take in one that ended by itself."""
        self._typical.add(request.num_generated_tokens)

    def left(self, num_remaining: int) -> float:
        """Expected tokens of a request that may still generate so many."""
        return max(min(float(num_remaining), self._typical.value), 1.0)
