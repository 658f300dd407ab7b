"""Waiting requests of one tenant and class, long and short ones apart, by priority with ageing.

One level of priority is worth ``ageing_s`` seconds of waiting. So the order inside a lane never
changes: it is that of the moments at which requests would have arrived, had they level 0.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from dspark.request_class import RequestClass
from dspark.scheduler.request import Request

# Levels beyond count as this one, so that ageing overtakes any of them within a bounded time.
MAX_LEVEL = 16


class LaneKey(NamedTuple):
    """Which requests wait in a lane."""

    request_class: RequestClass
    tenant: str
    is_long: bool


def level_of(request: Request) -> int:
    """The request's priority; lower goes first."""
    return max(-MAX_LEVEL, min(request.spec.priority, MAX_LEVEL))


class Lane:
    """Requests leave in any order; the best ones are found in O(log n), amortised."""

    def __init__(self, ageing_s: float) -> None:
        self._ageing_s = ageing_s
        self._members: set[Request] = set()
        self._by_due: list[tuple[float, int, Request]] = []
        self._by_level: list[tuple[int, int, Request]] = []

    def __len__(self) -> int:
        return len(self._members)

    def due(self, request: Request) -> float:
        """When it would have arrived, had it level 0; earlier goes first."""
        return request.arrived_at + level_of(request) * self._ageing_s

    def push(self, request: Request) -> None:
        assert request not in self._members
        self._members.add(request)
        heapq.heappush(self._by_due, (self.due(request), request.arrival, request))
        heapq.heappush(self._by_level, (level_of(request), request.arrival, request))

    def discard(self, request: Request) -> None:
        self._members.discard(request)

    @property
    def head(self) -> Request:
        """The request that goes first; the lane must not be empty."""
        while self._by_due[0][2] not in self._members:
            heapq.heappop(self._by_due)
        return self._by_due[0][2]

    @property
    def best_level(self) -> int:
        """The lowest level of all in the lane, which must not be empty."""
        while self._by_level[0][2] not in self._members:
            heapq.heappop(self._by_level)
        return self._by_level[0][0]
