"""What asking candidates is going to cost."""

from __future__ import annotations

from dspark.proposal import CandidatesInfo
from dspark.scheduler.stats import MovingAverage


class ProposePrice:
    """The sources' published time for so many requests, and an average of the rest that is seen.

    The rest is the call itself, checking and choosing. Where nothing is published, all is seen.
    """

    def __init__(self, first_ms: float) -> None:
        self._rest = MovingAverage(first_ms)

    def ms(self, num_requests: int, info: CandidatesInfo | None) -> float:
        """Expected milliseconds of asking for ``num_requests`` requests in one call."""
        return max(0.0, self._rest.value + _published_ms(num_requests, info))

    def add(self, took_ms: float, num_requests: int, info: CandidatesInfo | None) -> None:
        """Take in what one asking took."""
        self._rest.add(took_ms - _published_ms(num_requests, info))


def _published_ms(num_requests: int, info: CandidatesInfo | None) -> float:
    return 0.0 if info is None else num_requests * info.ms_per_request
