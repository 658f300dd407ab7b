"""The order and the bound of the waiting queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark import clock
from dspark.errors import QueueFull
from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.lane import LaneKey
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.slot_shares import SlotShares
from dspark.scheduler.queue import WaitingQueue
from dspark.scheduler.request import Request

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH


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


def of(
    tenant: str,
    arrival: int,
    *,
    at: float = 0.0,
    priority: int = 0,
    request_class: RequestClass = INTERACTIVE,
    num_prompt: int = 10,
    max_tokens: int = 10,
) -> Request:
    spec = RequestSpec(
        f"{tenant}{arrival}",
        (1,) * num_prompt,
        SamplingParams(max_tokens=max_tokens),
        priority=priority,
        request_class=request_class,
        tenant=tenant,
    )
    return Request(spec, arrival, arrived_at=at)


def taken(queue: WaitingQueue, count: int, at: float = 0.0) -> list[Request]:
    """So many requests, admitted one after the other."""
    requests = []
    with clock.replaced(lambda: at):
        for _ in range(count):
            request = queue.peek()
            assert request is not None and queue.peek() is request
            queue.take(request)
            requests.append(request)
    return requests


def tenants(requests: list[Request]) -> str:
    return "".join(request.spec.tenant for request in requests)


def test_interactive_requests_go_before_batch_and_batch_gets_its_share() -> None:
    queue = WaitingQueue(1000, FairnessSettings(batch_share=0.2))
    for index in range(100):
        queue.push(of("a", index, request_class=BATCH))
        queue.push(of("a", 1000 + index))
    classes = [request.spec.request_class for request in taken(queue, 100)]
    assert classes[:2] == [INTERACTIVE, BATCH] and classes[2] is INTERACTIVE
    assert classes.count(BATCH) == pytest.approx(20, abs=2)


def test_a_tenant_that_comes_later_has_its_turn_at_once() -> None:
    queue = WaitingQueue(1000)
    for index in range(100):
        queue.push(of("a", index, num_prompt=500))
    taken(queue, 20)
    queue.push(of("b", 1000))
    assert "b" in tenants(taken(queue, 2))


@pytest.mark.parametrize(("small", "large"), [(50, 100), (20, 900), (300, 350)])
def test_tenants_of_unequal_requests_get_equal_tokens(small: int, large: int) -> None:
    queue = WaitingQueue(10_000)
    for index in range(2000):
        queue.push(of("a", index, num_prompt=small, max_tokens=small))
        queue.push(of("b", index, num_prompt=large, max_tokens=large))
    used = {"a": 0, "b": 0}
    while sum(used.values()) < 60_000:
        (request,) = taken(queue, 1)
        used[request.spec.tenant] += request.num_prompt_tokens * 2
    assert used["a"] == pytest.approx(used["b"], rel=0.1)


def test_who_generated_less_has_the_next_turns() -> None:
    queue = WaitingQueue(1000)
    for index in range(40):
        queue.push(of("a", index, max_tokens=1000))
        queue.push(of("b", index, max_tokens=1000))
    for request in taken(queue, 10):
        if request.spec.tenant == "b":
            request.token_ids += [7] * 100
        queue.remove(request)
    assert tenants(taken(queue, 5)) == "aaaaa"


def test_a_request_that_waits_is_passed_by_better_ones_only_until_it_has_aged() -> None:
    queue = WaitingQueue(10_000, FairnessSettings(ageing_s=10.0))
    plain = of("z", 0, priority=2)
    queue.push(plain)
    passed = 0
    for second in range(1000):
        # Two more urgent ones come each second, and one request is served.
        for index in range(2):
            queue.push(of("ab"[index], 1 + 2 * second + index, at=second, num_prompt=300))
        (request,) = taken(queue, 1, at=second)
        if request is plain:
            break
        passed += 1
    assert passed == pytest.approx(20, abs=2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(-40, 40),
            st.sampled_from(RequestClass),
            st.sampled_from([1, 2000]),
        ),
        min_size=1,
        max_size=30,
    ),
    st.floats(0, 1000),
)
def test_everybody_is_found_exactly_once_whatever_the_order(
    drawn: list[tuple[str, int, RequestClass, int]], now: float
) -> None:
    queue = WaitingQueue(100)
    requests = [
        of(tenant, index, priority=priority, request_class=each, num_prompt=size)
        for index, (tenant, priority, each, size) in enumerate(drawn)
    ]
    for request in requests:
        queue.push_new(request)
    found = taken(queue, len(requests), at=now)
    assert set(found) == set(requests) and queue.peek() is None and len(queue) == 0


def test_a_stream_of_urgent_requests_does_not_keep_any_tenant_or_class_waiting() -> None:
    queue = WaitingQueue(100_000, FairnessSettings(ageing_s=1.0))
    patient = [
        of("p", 0, priority=16),
        of("q", 1, priority=16, request_class=BATCH),
        of("r", 2, priority=0, request_class=BATCH, max_tokens=500),
    ]
    for request in patient:
        queue.push(request)
    left = set(patient)
    for second in range(400):
        # Twice as much comes as is served, of tenants old and new.
        for index in range(2):
            tenant = f"t{second}" if index else "old"
            queue.push(of(tenant, 10 + second, at=second, priority=-16))
        left -= set(taken(queue, 1, at=second))
    assert not left


def test_long_requests_let_short_ones_pass_beyond_their_share() -> None:
    queue = WaitingQueue(100, FairnessSettings(long_share=0.5, long_output_tokens=100))
    long = [of("a", index, max_tokens=1000) for index in range(4)]
    short = [of("a", 10 + index) for index in range(2)]
    for request in (*long, *short):
        queue.push(request)
    running: list[LaneKey] = []
    order = []
    for _ in range(6):
        request = queue.peek(SlotShares(4, FairnessSettings(), running))
        assert request is not None
        running.append(queue.key_of(request))
        queue.take(request)
        order.append(request)
    assert order == [*long[:2], *short, *long[2:]]
