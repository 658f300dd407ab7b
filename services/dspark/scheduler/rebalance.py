"""Which requests should move between verifiers, because they end sooner elsewhere (pure)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dspark.scheduler.placement import Job, WorkerView, cost_ms

# A move must save this share of what staying costs, and this much time: what is expected is never
# exact, and every move costs a computation.
MIN_SAVED_SHARE = 0.25
MIN_SAVED_MS = 250.0
# Moves of one request that runs, for its life; one that waits has nothing to lose.
MAX_MOVES = 3
# Of one decision. What moved changes the picture, so the next decision sees to the rest.
MAX_RUNNING_MOVES = 1
MAX_WAITING_MOVES = 8
# Only between verifiers at the ends of the order by backlog, so that a decision stays cheap.
MAX_VERIFIERS = 2


@dataclass(frozen=True, slots=True)
class Movable:
    """A request that may go elsewhere: ``here`` is what is left of it where it is."""

    request_id: str
    here: Job
    num_tokens: int
    is_running: bool
    num_moves: int = 0
    # prompt and all tokens that may be generated
    max_len: int = 0
    # leading tokens that other verifiers probably have cached, by name
    cached: dict[str, int] = field(default_factory=dict)

    def at(self, name: str) -> Job:
        """What is left of it at another verifier, which computes its tokens anew."""
        return Job(max(self.num_tokens - self.cached.get(name, 0), 1), self.here.num_output)


@dataclass(frozen=True, slots=True)
class Load:
    """A verifier with the requests that may leave it, to those of the same ``arithmetic``."""

    view: WorkerView
    arithmetic: str
    requests: tuple[Movable, ...]
    # whether it may be given requests of others, up to this length
    takes: bool = True
    max_len: int = sys.maxsize


@dataclass(frozen=True, slots=True)
class Move:
    """A request that is to go on at another verifier, and how much sooner all ends by that."""

    request_id: str
    origin: str
    destination: str
    is_running: bool
    saved_ms: float


def rebalance(loads: Sequence[Load]) -> list[Move]:
    """The moves worth most, one after the other, each as if those before were made."""
    moves: list[Move] = []
    quota = {True: MAX_RUNNING_MOVES, False: MAX_WAITING_MOVES}
    loads = list(loads)
    while best := max(_worthwhile(loads, quota), key=lambda move: move.saved_ms, default=None):
        quota[best.is_running] -= 1
        moves.append(best)
        loads = [_after(load, best, loads) for load in loads]
    return moves


def _worthwhile(loads: Sequence[Load], quota: dict[bool, int]) -> Iterator[Move]:
    by_backlog = sorted(loads, key=lambda load: load.view.backlog_ms)
    colder = [load for load in by_backlog if load.takes]
    for origin in by_backlog[-MAX_VERIFIERS:]:
        others = [other for other in colder if _may_take(other, origin)][:MAX_VERIFIERS]
        for request in origin.requests:
            if not quota[request.is_running]:
                continue
            if request.is_running and request.num_moves >= MAX_MOVES:
                continue
            stay_ms = cost_ms(origin.view.minus(request.here), request.here)
            for other in others:
                if request.max_len > other.max_len:
                    continue
                saved_ms = stay_ms - cost_ms(other.view, request.at(other.view.name))
                if saved_ms > max(MIN_SAVED_MS, stay_ms * MIN_SAVED_SHARE):
                    yield _move(request, origin, other, saved_ms)


def _may_take(other: Load, origin: Load) -> bool:
    return other.view.name != origin.view.name and other.arithmetic == origin.arithmetic


def _move(request: Movable, origin: Load, other: Load, saved_ms: float) -> Move:
    names = origin.view.name, other.view.name
    return Move(request.request_id, *names, request.is_running, saved_ms)


def _after(load: Load, move: Move, loads: Sequence[Load]) -> Load:
    """What the verifier looks like once the move is made; what has moved does not move again."""
    if load.view.name == move.origin:
        moved = next(r for r in load.requests if r.request_id == move.request_id)
        rest = tuple(r for r in load.requests if r is not moved)
        return replace(load, view=load.view.minus(moved.here), requests=rest)
    if load.view.name == move.destination:
        origin = next(o for o in loads if o.view.name == move.origin)
        moved = next(r for r in origin.requests if r.request_id == move.request_id)
        return replace(load, view=load.view.plus(moved.at(move.destination)))
    return load
