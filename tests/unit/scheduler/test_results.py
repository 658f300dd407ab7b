"""Results are applied once, to the incarnation they were computed for."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.errors import BackendUnavailable, InvalidArgument
from dspark.generation import RequestSpec, TokenChunk, TokensComplete
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.request import Request, RequestStatus
from dspark.scheduler.results import MAX_SETBACKS, Applied, ResultApplier
from dspark.scheduler.stats import Totals
from dspark.step import SequenceWork, StepOutcome, WorkResult, WorkStatus
from dspark.token_tree import TokenTree, chain


class Bench:
    """Live requests and an applier, without a loop."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.live = LiveRequests(100, Numbers(lambda: 1), totals=self.totals)
        self.learnt: list[Request] = []
        self.applier = ResultApplier(self.live, self.totals, lambda r, *_: self.learnt.append(r))

    def run(self, request_id: str = "r", priority: int = 0) -> Request:
        request = self.live.submit(
            RequestSpec(request_id, (1, 2), SamplingParams(), priority=priority)
        )
        self.live.admit(request)
        return request

    def apply(self, *entries: tuple[Request, SequenceWork, WorkResult]) -> Applied:
        requests, work, results = zip(*entries, strict=True)
        applied = self.applier.apply(work, requests, StepOutcome(1, {}, results))
        self.applier.finish(applied)
        applied.push_chunks()
        return applied


def entry(
    request: Request,
    status: WorkStatus = WorkStatus.DONE,
    tree: TokenTree | None = None,
    **result: Any,
) -> tuple[Request, SequenceWork, WorkResult]:
    length = len(request.token_ids)
    work = SequenceWork(request.request_id, request.epoch, length, 2, tree or TokenTree())
    computed = length + len(result.get("accepted_nodes", ()))
    done = WorkResult(request.request_id, request.epoch, status, computed, **result)
    return request, work, done


async def events_of(request: Request) -> list[TokenChunk | TokensComplete]:
    return [event async for event in request.stream]


async def test_committed_tokens_are_counted_and_streamed_once() -> None:
    bench = Bench()
    request = bench.run()
    bench.apply(entry(request, committed_token_ids=(5,)))
    tree = chain([6, 7, 8], "a")
    step = entry(request, tree=tree, committed_token_ids=(6, 7, 9), accepted_nodes=(1, 2))
    applied = bench.apply(step)
    assert applied.decoded == [request]
    assert request.token_ids == [1, 2, 5, 6, 7, 9] and request.num_pending_tokens == 1
    assert (request.stats.rounds, request.stats.drafted, request.stats.accepted) == (2, 3, 2)
    assert bench.totals.speculation.sources["a"].accepted == 2
    assert bench.totals.generation_tokens == 4 and bench.totals.prompt_tokens == 2
    bench.apply(
        entry(
            request,
            committed_token_ids=(3,),
            finish_reason=FinishReason.STOP,
            stop_token_id=3,
        )
    )
    first, second, third, end = await events_of(request)
    assert (first, second) == (TokenChunk((5,), 0), TokenChunk((6, 7, 9), 2))
    assert isinstance(third, TokenChunk) and isinstance(end, TokensComplete)
    assert end.finish_reason is FinishReason.STOP and end.stop_token_id == 3
    assert end.usage.completion_tokens == 5
    # The verifier released it by itself.
    assert bench.live.releases == [] and len(bench.live) == 0


def test_a_chunk_of_a_prompt_only_counts() -> None:
    bench = Bench()
    request = bench.run()
    work = SequenceWork("r", request.epoch, 2, 1)
    bench.apply((request, work, WorkResult("r", request.epoch, WorkStatus.DONE, 1)))
    assert request.num_computed_tokens == 1 and request.stats.rounds == 0
    assert bench.totals.prompt_tokens == 0


def test_a_repeated_result_is_ignored() -> None:
    bench = Bench()
    request = bench.run()
    step = entry(request, committed_token_ids=(5,))
    for _ in range(3):
        bench.apply(step)
    assert request.token_ids == [1, 2, 5] and bench.totals.generation_tokens == 1


@pytest.mark.parametrize("readmitted", [False, True])
def test_a_result_of_a_preempted_incarnation_is_ignored(readmitted: bool) -> None:
    bench = Bench()
    request = bench.run()
    step = entry(request, committed_token_ids=(5,))
    for _ in range(2):
        bench.live.requeue(request)
        if readmitted:
            bench.live.admit(request)
        bench.apply(step)
        if not readmitted:
            bench.live.admit(request)
    assert request.token_ids == [1, 2] and request.num_computed_tokens == 0


def test_a_result_of_a_cancelled_request_is_ignored_also_for_its_successor() -> None:
    bench = Bench()
    old = bench.run()
    step = entry(old, committed_token_ids=(5,), finish_reason=FinishReason.STOP)
    bench.live.cancel(old)
    new = bench.run()
    assert new.epoch > old.epoch
    bench.apply(step)
    assert new.token_ids == old.token_ids == [1, 2] and new.is_running


@pytest.mark.parametrize("status", [WorkStatus.STALE, WorkStatus.NOT_FOUND])
def test_a_sequence_the_verifier_does_not_have_is_admitted_anew(status: WorkStatus) -> None:
    bench = Bench()
    request = bench.run()
    bench.apply(entry(request, committed_token_ids=(5,)))
    old = request.ref
    bench.apply(entry(request, status))
    assert request.status is RequestStatus.PREEMPTED and bench.live.releases == [old]
    assert bench.totals.num_preemptions == 0
    bench.live.admit(request)
    assert request.epoch > old.epoch and request.token_ids == [1, 2, 5]


async def test_a_verifier_that_never_keeps_a_sequence_ends_it() -> None:
    bench = Bench()
    request = bench.run()
    for _ in range(MAX_SETBACKS):
        bench.apply(entry(request, WorkStatus.NOT_FOUND))
        bench.live.admit(request)
    bench.apply(entry(request, WorkStatus.NOT_FOUND))
    with pytest.raises(BackendUnavailable):
        await events_of(request)


@pytest.mark.parametrize("starved", [0, 1, 2])
def test_the_request_that_came_last_gives_way(starved: int) -> None:
    bench = Bench()
    urgent, early, late = bench.run("u", -1), bench.run("e"), bench.run("l")
    steps = [
        entry(r, WorkStatus.NO_BLOCKS if i == starved else WorkStatus.DONE)
        for i, r in enumerate((late, urgent, early))
    ]
    bench.apply(*steps)
    assert late.status is RequestStatus.PREEMPTED
    assert bench.live.running == [urgent, early]
    assert bench.totals.num_preemptions == 1


def test_an_only_request_without_room_tries_again() -> None:
    bench = Bench()
    request = bench.run()
    bench.apply(entry(request, WorkStatus.NO_BLOCKS))
    assert request.status is RequestStatus.PREEMPTED and request.num_setbacks == 1


def test_cached_tokens_are_those_of_the_first_admission() -> None:
    bench = Bench()
    request = bench.run()
    for cached in (1, 2):
        _, work, result = entry(request)
        bench.applier.apply([work], [request], StepOutcome(1, {"r": cached}, (result,)))
    assert request.num_cached_tokens == 1 and bench.totals.cached_tokens == 1


def test_a_missing_result_changes_nothing() -> None:
    bench = Bench()
    request = bench.run()
    _, work, _ = entry(request)
    applied = bench.applier.apply([work], [request], StepOutcome(1))
    assert applied.num_done == 0 and request.is_running


async def test_a_request_whose_options_leave_no_token_fails_by_its_own_fault() -> None:
    bench = Bench()
    request = bench.run()
    bench.apply(entry(request, finish_reason=FinishReason.ERROR, no_token_left=True))
    with pytest.raises(InvalidArgument, match="leave no token for place 2"):
        await events_of(request)
    assert request.is_finished
