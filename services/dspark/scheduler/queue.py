"""The waiting queue: by priority, first come first served inside one."""

from __future__ import annotations

import heapq

from dspark.errors import QueueFull
from dspark.scheduler.request import Request


class WaitingQueue:
    """Requests not on a verifier. The bound holds for new requests; a preempted one always returns.

    A request keeps its arrival number for life, so a preempted one is again before all that came
    later.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._heap: list[tuple[tuple[int, int], Request]] = []
        self._members: set[Request] = set()

    def __len__(self) -> int:
        return len(self._members)

    def push_new(self, request: Request) -> None:
        """Raises QueueFull."""
        if len(self) >= self._max_waiting:
            raise QueueFull(f"{len(self)} requests are waiting already")
        self.push(request)

    def push(self, request: Request) -> None:
        assert request not in self._members
        heapq.heappush(self._heap, (request.order, request))
        self._members.add(request)

    def peek(self) -> Request | None:
        """The next request, which stays in the queue."""
        while self._heap and self._heap[0][1] not in self._members:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def remove(self, request: Request) -> None:
        """Take the request out; one that is not waiting is left alone."""
        self._members.discard(request)

    def members(self) -> list[Request]:
        return list(self._members)
