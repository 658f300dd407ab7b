"""What asking candidates is going to cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dspark.proposal import CandidatesInfo
from dspark.scheduler.stats import MovingAverage


class ProposePrice:
    """The published time of the sources that each request asks, and an average of the rest that is
    seen.

    The rest is the call itself, checking and choosing. Where nothing is published, all is seen.
    ``asked`` has the sources of each request of a call.
    """

    def __init__(self, first_ms: float) -> None:
        self._rest = MovingAverage(first_ms)

    def ms(self, asked: Iterable[Collection[str]], info: CandidatesInfo | None) -> float:
        """Expected milliseconds of one call."""
        return max(0.0, self._rest.value + _published_ms(asked, info))

    def add(
        self, took_ms: float, asked: Iterable[Collection[str]], info: CandidatesInfo | None
    ) -> None:
        """Take in what one call took."""
        self._rest.add(took_ms - _published_ms(asked, info))


def _published_ms(asked: Iterable[Collection[str]], info: CandidatesInfo | None) -> float:
    return 0.0 if info is None else sum(map(info.ms_of, asked))
