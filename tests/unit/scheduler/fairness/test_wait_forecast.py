"""Predicted waits: what goes before, how fast it goes, and who is refused."""

from __future__ import annotations

import pytest

from dspark.errors import Overloaded, QueueFull
from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.token_rates import TokenRates
from dspark.scheduler.fairness.wait_forecast import MAX_RETRY_S, WaitForecast
from dspark.scheduler.fairness.waiting_work import Ahead, WaitingWork, Work
from dspark.scheduler.request import Request, Share
from dspark.step import SequenceWork, StepOutcome, StepPlan, WorkResult, WorkStatus
from dspark.token_tree import chain

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH
A, B, BATCH_A = Share(INTERACTIVE, "a"), Share(INTERACTIVE, "b"), Share(BATCH, "a")


def rates() -> TokenRates:
    """A thousand prompt tokens a second, a hundred output tokens a second."""
    measured = TokenRates()
    measured.add(1000, 0, 0, 1.0)
    measured.add(0, 50, 100, 1.0)
    return measured


def request(tenant: str = "", request_class: RequestClass = INTERACTIVE) -> Request:
    spec = RequestSpec("r", (1,), SamplingParams(), request_class=request_class, tenant=tenant)
    return Request(spec, 0)


def forecast(**settings: float) -> WaitForecast:
    return WaitForecast(FairnessSettings(**settings), rates())  # type: ignore[arg-type]


def test_each_kind_of_tokens_has_its_rate() -> None:
    assert rates().seconds(Work(500, 0)) == pytest.approx(0.5)
    assert rates().seconds(Work(0, 500)) == pytest.approx(5.0)
    assert TokenRates().seconds(Work(1e6, 1e6)) == 0


def test_a_mixed_step_is_divided_by_rows() -> None:
    mixed = TokenRates()
    mixed.add(90, 10, 10, 1.0)
    assert mixed.seconds(Work(90, 0)) == pytest.approx(0.9)
    assert mixed.seconds(Work(0, 10)) == pytest.approx(0.1)


def test_rates_come_from_what_a_step_did() -> None:
    tree = chain((5, 6), (0.5, 0.5), "suffix")
    plan = StepPlan("s", 1, work=(SequenceWork("a", 1, 5, 1, tree), SequenceWork("b", 1, 40, 27)))
    committed = WorkResult("a", 1, WorkStatus.DONE, committed_token_ids=(5, 6, 7))
    outcome = StepOutcome(1, results=(committed,), num_rows=30)
    measured = TokenRates()
    measured.observe(plan, outcome, 3.0)
    assert measured.seconds(Work(27, 0)) == pytest.approx(2.7)
    assert measured.seconds(Work(0, 3)) == pytest.approx(0.3)


def test_a_step_without_rows_tells_nothing() -> None:
    measured = TokenRates()
    measured.observe(StepPlan("s", 1), StepOutcome(1), 5.0)
    assert measured.seconds(Work(1, 1)) == 0


def test_other_tenants_go_first_with_as_much_as_oneself_has() -> None:
    waiting = WaitingWork(batch_share=0.1)
    waiting.add(A, Work(100, 100))
    for _ in range(50):
        waiting.add(B, Work(100, 100))
    assert waiting.ahead(A, Work(50, 50)) == Ahead(Work(100, 100), Work(150, 150))
    ahead = waiting.ahead(B, Work(50, 50))
    assert ahead == Ahead(Work(5000, 5000), Work(100, 100))
    assert waiting.ahead(Share(INTERACTIVE, "new"), Work(10, 10)).others.total == 40


def test_before_batch_go_all_interactive_ones_and_before_those_its_share() -> None:
    waiting = WaitingWork(batch_share=0.5)
    waiting.add(A, Work(300, 0))
    waiting.add(BATCH_A, Work(1000, 0))
    assert waiting.ahead(BATCH_A, Work(1, 0)) == Ahead(Work(1000, 0), Work(300, 0))
    assert waiting.ahead(A, Work(1, 0)) == Ahead(Work(300, 0), Work(300, 0))


def test_the_longest_queue_is_one_that_is_longer_by_two() -> None:
    waiting = WaitingWork(batch_share=0.1)
    assert waiting.longest_besides(A) is None
    waiting.add(B, Work(1, 1))
    assert waiting.longest_besides(A) is None
    waiting.add(B, Work(1, 1))
    assert waiting.longest_besides(A) == B and waiting.longest_besides(B) is None


def test_what_left_is_not_counted() -> None:
    waiting = WaitingWork(batch_share=0.1)
    waiting.add(A, Work(100, 10))
    waiting.remove(A, Work(100, 10))
    assert waiting.ahead(B, Work(1, 1)) == Ahead(Work(), Work())


@pytest.mark.parametrize("limit_s", [0.0, 11.0])
def test_nobody_is_refused_without_a_limit_or_within_it(limit_s: float) -> None:
    forecast(interactive_max_wait_s=limit_s).check(request(), Ahead(Work(), Work(1000, 1000)))


def test_a_request_behind_those_of_others_learns_that_the_server_is_overloaded() -> None:
    ahead = Ahead(Work(0, 100), Work(2000, 1000))
    with pytest.raises(Overloaded, match=r"about 13 s.*interactive.*for 5 s") as caught:
        forecast(interactive_max_wait_s=5.0).check(request("a"), ahead)
    assert caught.value.retry_after_s == 8


def test_a_request_behind_its_own_tenant_learns_that_it_sends_too_much() -> None:
    ahead = Ahead(Work(0, 1000), Work())
    with pytest.raises(QueueFull, match="of its tenant") as caught:
        forecast(interactive_max_wait_s=5.0).check(request("a"), ahead)
    assert caught.value.retry_after_s == 5
    # Where nobody has a name, nobody can be told from the others.
    with pytest.raises(Overloaded):
        forecast(interactive_max_wait_s=5.0).check(request(), ahead)


def test_each_class_has_its_own_limit() -> None:
    ahead = Ahead(Work(0, 1000), Work())
    limits = forecast(interactive_max_wait_s=60.0, batch_max_wait_s=1.0)
    limits.check(request("a"), ahead)
    with pytest.raises(QueueFull, match="batch"):
        limits.check(request("a", BATCH), ahead)


def test_nobody_is_sent_away_for_more_than_an_hour() -> None:
    with pytest.raises(Overloaded) as caught:
        forecast(interactive_max_wait_s=1.0).check(request(), Ahead(Work(), Work(0, 1e9)))
    assert caught.value.retry_after_s == MAX_RETRY_S
