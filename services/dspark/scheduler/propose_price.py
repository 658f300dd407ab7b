"""What asking candidates is going to cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dspark.proposal import CandidatesInfo
from dspark.scheduler.stats import MovingAverage


class ProposePrice:
    """An average of what is seen beside the published time of the sources that each request asks.

    That is the call itself, checking and choosing. Where nothing is published, all is seen.
    """

    def __init__(self, first_ms: float) -> None:
        self._rest = MovingAverage(first_ms)

    @property
    def call_ms(self) -> float:
        """Expected milliseconds of one call without what its requests add to it."""
        return max(0.0, self._rest.value)

    def add(
        self, took_ms: float, asked: Iterable[Collection[str]], info: CandidatesInfo | None
    ) -> None:
        """Take in what one call took; ``asked`` has the sources of each of its requests."""
        self._rest.add(took_ms - _published_ms(asked, info))


def _published_ms(asked: Iterable[Collection[str]], info: CandidatesInfo | None) -> float:
    return 0.0 if info is None else sum(map(info.ms_of, asked))
