"""A lane is in order of priority, with every level worth some seconds of waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.lane import MAX_LEVEL, Lane, level_of
from dspark.scheduler.request import Request

AGEING_S = 10.0


def make(arrival: int, arrived_at: float, priority: int = 0) -> Request:
    spec = RequestSpec(f"r{arrival}", (1,), SamplingParams(), priority=priority)
    return Request(spec, arrival, arrived_at=arrived_at)


def drain(lane: Lane) -> list[Request]:
    drained = []
    while lane:
        drained.append(lane.head)
        lane.discard(lane.head)
    return drained


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(-20, 20))))
def test_requests_leave_by_arrival_and_what_priority_is_worth(
    drawn: list[tuple[float, int]],
) -> None:
    requests = [make(index, at, priority) for index, (at, priority) in enumerate(drawn)]
    lane = Lane(AGEING_S)
    for request in requests:
        lane.push(request)
    levels = [level_of(request) for request in requests]
    assert not requests or lane.best_level == min(levels)
    want = sorted(requests, key=lambda r: (r.arrived_at + level_of(r) * AGEING_S, r.arrival))
    assert drain(lane) == want


def test_a_request_passes_better_ones_that_came_long_after_it() -> None:
    lane = Lane(AGEING_S)
    patient, soon, late = make(0, 0.0, 1), make(1, 9.0), make(2, 11.0)
    for request in (soon, late, patient):
        lane.push(request)
    assert drain(lane) == [soon, patient, late]


def test_who_left_is_not_found_again() -> None:
    lane = Lane(AGEING_S)
    requests = [make(index, float(index), -index) for index in range(3)]
    for request in requests:
        lane.push(request)
    lane.discard(requests[2])
    assert lane.best_level == -1 and len(lane) == 2
    assert drain(lane) == [requests[1], requests[0]]


def test_levels_have_a_bound_so_that_ageing_gets_there() -> None:
    assert level_of(make(0, 0.0, -(2**31))) == -MAX_LEVEL
    assert level_of(make(0, 0.0, 2**31 - 1)) == MAX_LEVEL
