"""What asking one source costs, as running averages."""

from __future__ import annotations

from dspark.proposal import SourceRate

# Share by which one call moves an average; the first call sets it.
_WEIGHT = 0.05
_NS_PER_MS = 1e6


class RunningRate:
    """Milliseconds for one request and for one node, over the calls that gave trees."""

    def __init__(self) -> None:
        self._ms_per_request: float | None = None
        self._ms_per_node: float | None = None

    def add(self, num_requests: int, num_nodes: int, cost_ns: int) -> None:
        """Take in one call; what it costs beside its nodes is shared by them."""
        ms = cost_ns / _NS_PER_MS
        if num_requests:
            self._ms_per_request = _moved(self._ms_per_request, ms / num_requests)
        if num_nodes:
            self._ms_per_node = _moved(self._ms_per_node, ms / num_nodes)

    def of(self, name: str) -> SourceRate | None:
        """The averages so far; None before the first call."""
        if self._ms_per_request is None:
            return None
        return SourceRate(name, self._ms_per_request, self._ms_per_node or 0.0)


def _moved(average: float | None, sample: float) -> float:
    return sample if average is None else average + _WEIGHT * (sample - average)
