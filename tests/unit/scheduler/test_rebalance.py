"""Which moves are worth it, and that there are never too many."""

from __future__ import annotations

from dataclasses import replace

from dspark.scheduler.pace import Speed
from dspark.scheduler.placement import Job, WorkerView
from dspark.scheduler.rebalance import (
    MAX_MOVES,
    MAX_RUNNING_MOVES,
    MAX_WAITING_MOVES,
    Load,
    Movable,
    rebalance,
)

SPEED = Speed(lambda rows: 10.0 + 4.0 * rows, max_rows=512)
SLOW = Speed(lambda rows: 4 * SPEED.pass_ms(rows), max_rows=512)


def running(name: str, num_output: float = 500.0, **fields: object) -> Movable:
    movable = Movable(name, Job(1, num_output), num_tokens=100, is_running=True)
    return replace(movable, **fields)  # type: ignore[arg-type]


def waiting(name: str) -> Movable:
    return Movable(name, Job(100, 500.0), num_tokens=100, is_running=False)


def load(name: str, *requests: Movable, speed: Speed = SPEED, arithmetic: str = "a") -> Load:
    view = WorkerView(name, speed, num_slots=16)
    for request in requests:
        view = view.plus(request.here)
    return Load(view, arithmetic, requests)


def test_balanced_verifiers_are_left_alone() -> None:
    assert rebalance([load("a", running("1")), load("b", running("2"))]) == []


def test_a_request_moves_from_a_hot_verifier_to_an_idle_one() -> None:
    hot = load("hot", *(running(str(i)) for i in range(4)))
    (move,) = rebalance([hot, load("cold")])
    assert (move.origin, move.destination) == ("hot", "cold")


def test_a_lone_request_leaves_a_slow_verifier() -> None:
    (move,) = rebalance([load("slow", running("r"), speed=SLOW), load("fast")])
    assert move.destination == "fast"


def test_one_that_is_nearly_done_stays() -> None:
    assert rebalance([load("slow", running("r", num_output=3.0), speed=SLOW), load("fast")]) == []


def test_moves_back_are_never_worth_it_at_once() -> None:
    hot = load("hot", *(running(str(i)) for i in range(4)))
    (move,) = rebalance([hot, load("cold")])
    moved = running(move.request_id, num_moves=1)
    rest = [r for r in hot.requests if r.request_id != move.request_id]
    again = rebalance([load("hot", *rest), load("cold", moved)])
    assert [m for m in again if m.request_id == move.request_id] == []


def test_a_running_request_moves_a_few_times_at_most() -> None:
    hot = load("hot", *(running(str(i), num_moves=MAX_MOVES) for i in range(4)))
    assert rebalance([hot, load("cold")]) == []


def test_one_running_request_and_a_few_waiting_ones_move_at_a_time() -> None:
    requests = [running(f"r{i}") for i in range(20)] + [waiting(f"w{i}") for i in range(20)]
    moves = rebalance([load("hot", *requests), load("cold")])
    assert sum(move.is_running for move in moves) == MAX_RUNNING_MOVES
    assert sum(not move.is_running for move in moves) == MAX_WAITING_MOVES
    assert len({move.request_id for move in moves}) == len(moves)


def test_requests_keep_their_arithmetic() -> None:
    hot = load("hot", *(running(str(i)) for i in range(8)))
    assert rebalance([hot, load("cold", arithmetic="b")]) == []


def test_a_request_stays_where_it_fits() -> None:
    hot = load("hot", *(running(str(i), max_len=600) for i in range(8)))
    assert rebalance([hot, replace(load("cold"), max_len=599)]) == []
    assert len(rebalance([hot, replace(load("cold"), max_len=600)])) == 1


def test_a_verifier_that_leaves_is_given_nothing() -> None:
    hot = load("hot", *(running(str(i)) for i in range(8)))
    assert rebalance([hot, replace(load("cold"), takes=False)]) == []


def test_what_has_not_to_be_computed_again_makes_a_move_worth_it() -> None:
    def moves(cached: dict[str, int]) -> int:
        request = running("r", num_output=40.0, num_tokens=8000, cached=cached)
        return len(rebalance([load("slow", request, speed=SLOW), load("fast")]))

    assert (moves({}), moves({"fast": 7984})) == (0, 1)
