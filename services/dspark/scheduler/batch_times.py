"""A time by the number of requests in a batch, learnt from steps of many sizes."""

from __future__ import annotations

from itertools import pairwise

from dspark.scheduler.stats import MovingAverage


class BatchTimes:
    """Averages for each doubling of the number of requests, and straight lines between them.

    Below what was seen a time is taken to shrink with the batch, and beyond it to grow with it:
    whoever decides by that soon sees what it is.
    """

    def __init__(self) -> None:
        # the mean number of requests and milliseconds, by the bits of the number
        self._seen: dict[int, tuple[MovingAverage, MovingAverage]] = {}

    def observe(self, num_requests: int, ms: float) -> None:
        """Take in one step; one without requests tells nothing."""
        if num_requests < 1:
            return
        key = num_requests.bit_length()
        if key not in self._seen:
            self._seen[key] = MovingAverage(num_requests), MovingAverage(ms)
        number, time = self._seen[key]
        number.add(num_requests)
        time.add(ms)

    def ms(self, num_requests: float) -> float:
        """0 where nothing was seen."""
        points = [(n.value, time.value) for _, (n, time) in sorted(self._seen.items())]
        if not points:
            return 0.0
        first, last = points[0], points[-1]
        if num_requests <= first[0]:
            return first[1] * num_requests / first[0]
        for (n, ms), (next_n, next_ms) in pairwise(points):
            if num_requests <= next_n:
                return ms + (next_ms - ms) * (num_requests - n) / (next_n - n)
        return last[1] * num_requests / last[0]
