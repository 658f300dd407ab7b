"""The order and the bound of the waiting queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.errors import QueueFull
from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.queue import WaitingQueue
from dspark.scheduler.request import Request


def make(arrival: int, priority: int = 0) -> Request:
    spec = RequestSpec(f"r{arrival}", (1,), SamplingParams(), priority=priority)
    return Request(spec, arrival)


def drain(queue: WaitingQueue) -> list[Request]:
    drained = []
    while (request := queue.peek()) is not None:
        queue.remove(request)
        drained.append(request)
    return drained


@given(st.lists(st.integers(-3, 3)))
def test_lower_priority_numbers_go_first_and_in_order_of_arrival(priorities: list[int]) -> None:
    queue = WaitingQueue(100)
    requests = [make(arrival, priority) for arrival, priority in enumerate(priorities)]
    for request in requests:
        queue.push_new(request)
    assert drain(queue) == sorted(requests, key=lambda r: r.spec.priority)


def test_a_preempted_request_returns_before_all_that_came_later() -> None:
    queue = WaitingQueue(10)
    early, later = make(0), make(1)
    queue.push_new(early)
    queue.remove(early)
    queue.push_new(later)
    queue.push(early)
    assert drain(queue) == [early, later]


def test_the_bound_holds_for_new_requests_only() -> None:
    queue = WaitingQueue(2)
    queue.push_new(make(1))
    queue.push_new(make(2))
    with pytest.raises(QueueFull):
        queue.push_new(make(3))
    queue.push(make(0))
    assert len(queue) == 3


def test_removed_requests_are_gone_wherever_they_stood() -> None:
    queue = WaitingQueue(10)
    requests = [make(arrival) for arrival in range(5)]
    for request in requests:
        queue.push_new(request)
    for index in (0, 2, 4, 4):
        queue.remove(requests[index])
    assert len(queue) == 2 and set(queue.members()) == {requests[1], requests[3]}
    assert drain(queue) == [requests[1], requests[3]]
