"""Submit, admit, requeue, end: who holds what afterwards."""

from __future__ import annotations

import pytest

from dspark.errors import Draining, DuplicateRequest, QueueFull
from dspark.generation import RequestSpec, TokensComplete
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals


@pytest.fixture
def totals() -> Totals:
    return Totals()


@pytest.fixture
def live(totals: Totals) -> LiveRequests:
    return LiveRequests(2, Numbers(lambda: 10), totals=totals)


def spec(request_id: str, **fields: object) -> RequestSpec:
    return RequestSpec(request_id, (1,), SamplingParams(max_tokens=2), **fields)  # type: ignore[arg-type]


def test_an_id_is_live_once(live: LiveRequests) -> None:
    request = live.submit(spec("r"))
    with pytest.raises(DuplicateRequest):
        live.submit(spec("r"))
    live.cancel(request)
    live.submit(spec("r"))


def test_a_full_queue_keeps_nothing_of_what_it_refused(live: LiveRequests) -> None:
    live.submit(spec("a"))
    live.submit(spec("b"))
    with pytest.raises(QueueFull):
        live.submit(spec("c"))
    assert len(live) == 2
    live.admit(next(r for r in live.waiting.members() if r.request_id == "a"))
    live.submit(spec("c"))


def test_epochs_grow_over_all_requests(live: LiveRequests) -> None:
    first, second = live.submit(spec("a")), live.submit(spec("b"))
    for request in (first, second):
        live.admit(request)
    live.requeue(first)
    live.admit(first)
    assert (second.epoch, first.epoch) == (11, 12)


@pytest.mark.parametrize("running", [False, True])
def test_a_cancelled_request_is_released_where_it_was(
    live: LiveRequests, totals: Totals, running: bool
) -> None:
    ends: list[tuple[Request, bool]] = []
    live.set_end_listener(lambda request, completed: ends.append((request, completed)))
    request = live.submit(spec("r"))
    if running:
        live.admit(request)
    assert live.cancel(request)
    assert not live.cancel(request)
    assert live.take_releases() == ((request.ref,) if running else ())
    assert live.take_releases() == ()
    assert not live.running and not len(live.waiting) and not len(live)
    assert ends == [(request, False)] and totals.finished[FinishReason.ABORT] == 1


async def test_a_request_with_all_its_tokens_ends_at_once(live: LiveRequests) -> None:
    request = live.submit(spec("r", committed_token_ids=(5, 6)))
    (end,) = [event async for event in request.stream]
    assert isinstance(end, TokensComplete) and end.finish_reason is FinishReason.LENGTH
    assert end.usage.completion_tokens == 2 and len(live) == 0


async def test_all_streams_end_when_everything_fails(live: LiveRequests) -> None:
    running, waiting = live.submit(spec("a")), live.submit(spec("b"))
    live.admit(running)
    live.fail_all(Draining("bye"))
    for request in (running, waiting):
        with pytest.raises(Draining):
            async for _ in request.stream:
                pass
    assert live.releases == [running.ref] and len(live) == 0


def test_what_is_handed_over_goes_on_elsewhere(totals: Totals) -> None:
    numbers = Numbers(lambda: 10)
    lost, heir = LiveRequests(9, numbers, totals), LiveRequests(1, numbers, totals)
    ends: list[tuple[str, bool]] = []
    lost.set_end_listener(lambda request, completed: ends.append((request.request_id, completed)))
    first, second, third = (lost.submit(spec(name)) for name in "abc")
    lost.admit(second)
    requests = lost.hand_over()
    assert requests == [first, second, third] and len(lost) == 0 and lost.waiting.peek() is None
    assert lost.releases == [second.ref] and lost.running == []
    assert ends == [("a", False), ("b", False), ("c", False)]
    for request in requests:
        heir.take_over(request)
    # The bound of a queue is for new requests.
    assert heir.waiting.peek() is first and len(heir) == 3
    heir.admit(second)
    assert second.epoch == 11
    assert all(heir.has(name) and not lost.has(name) for name in "abc")


def test_epochs_are_larger_than_the_time_and_than_what_a_verifier_knows(totals: Totals) -> None:
    now = 10
    numbers = Numbers(lambda: now)
    assert [numbers.next_epoch() for _ in range(3)] == [10, 11, 12]
    now = 50
    assert numbers.next_epoch() == 50
    live = LiveRequests(2, numbers, totals)
    request = live.submit(spec("r"))
    live.admit(request)
    live.requeue(request, known_epoch=900)
    live.admit(request)
    assert request.epoch == 901


async def test_a_tenant_with_few_requests_gets_a_place_in_a_queue_that_another_filled(
    totals: Totals,
) -> None:
    live = LiveRequests(4, Numbers(lambda: 10), totals)
    resumed = live.submit(spec("a0", tenant="a", committed_token_ids=(5,)))
    flood = [live.submit(spec(f"a{index}", tenant="a")) for index in range(1, 4)]
    calm = live.submit(spec("b0", tenant="b"), is_full=True)
    with pytest.raises(QueueFull):
        live.submit(spec("a4", tenant="a"), is_full=True)
    assert set(live.waiting.members()) == {resumed, *flood[:2], calm}
    with pytest.raises(QueueFull, match="its place"):
        [event async for event in flood[2].stream]
    # Two of each wait now beside the one that has tokens: nobody has to leave for another.
    live.submit(spec("b1", tenant="b"), is_full=True)
    with pytest.raises(QueueFull, match="4 requests are waiting"):
        live.submit(spec("b2", tenant="b"), is_full=True)
    assert totals.classes.refusals.total() == 2 and totals.finished[FinishReason.ERROR] == 2
