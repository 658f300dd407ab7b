"""What is decided of steps ahead, and what that settles for the step before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dspark.proposal import CandidatesInfo
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish, FeatureWishes
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import Budget, PolicySettings, RequestView, StepContext
from dspark.scheduler.propose_price import ProposePrice
from harness.drafting_requests import MemoryCandidates, batch_of, decoding, make_drafting


def count_budgets(drafting: Drafting, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of requests that the policy is asked about from now on, call by call."""
    calls: list[int] = []
    budget = type(drafting.knowledge.policy).budget

    def counting(
        policy: object, views: Sequence[RequestView], context: StepContext
    ) -> list[Budget]:
        calls.append(len(views))
        return budget(policy, views, context)  # type: ignore[arg-type]

    monkeypatch.setattr(type(drafting.knowledge.policy), "budget", counting)
    return calls


async def test_what_was_foreseen_is_not_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drafting = make_drafting(MemoryCandidates())
    batch = batch_of(decoding(drafting, "a"), decoding(drafting, "b"))
    expected = await drafting.draft(batch, overhead_ms=1.0)
    drafting.askings.foresee(batch, overhead_ms=1.0)
    calls = count_budgets(drafting, monkeypatch)
    assert await drafting.draft(batch, overhead_ms=1.0) == expected
    assert calls == []
    assert await drafting.draft(batch, overhead_ms=1.0) == expected
    assert calls == [2]


async def test_a_request_that_was_not_foreseen_has_all_decided_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafting = make_drafting(MemoryCandidates())
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    calls = count_budgets(drafting, monkeypatch)
    assert len(await drafting.draft(batch_of(first, second), overhead_ms=1.0)) == 2
    assert calls == [2]


async def test_nobody_is_asked_when_nothing_was_foreseen() -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates, "economic")
    batch = batch_of(decoding(drafting, enabled=False))
    drafting.askings.foresee(batch, overhead_ms=1.0)
    assert await drafting.draft(batch, overhead_ms=1.0) == {}
    assert candidates.items == []


async def test_what_was_foreseen_shrinks_to_what_is_left_of_the_request() -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates, max_len=8)
    request = decoding(drafting)
    drafting.askings.foresee(batch_of(request), overhead_ms=1.0)
    request.commit((5, 6))
    request.num_computed_tokens += 2
    await drafting.draft(batch_of(request), overhead_ms=1.0)
    assert [item.max_nodes for item in candidates.items] == [2]


def test_requests_that_ended_meanwhile_leave_nothing_behind() -> None:
    drafting = make_drafting(MemoryCandidates())
    request = decoding(drafting)
    batch = batch_of(request)
    drafting.askings.foresee(batch, overhead_ms=1.0)
    request.finish()
    drafting.knowledge.end(request, completed=True)
    drafting.askings.forget(request)
    assert not any(drafting.askings._foresight._steps)
    drafting.askings.foresee(batch, overhead_ms=1.0)
    assert not any(drafting.askings._foresight._steps)
    assert not drafting.knowledge.states


def foreseeing_two(*, explore_share: float = 0.0) -> Drafting:
    """Decides two steps at once; a step costs so little beside asking that none ever asks."""
    settings = PolicySettings(explore_share=explore_share)
    drafting = make_drafting(MemoryCandidates(), "economic")
    drafting.knowledge.policy = POLICIES["economic"](settings)
    drafting.knowledge.computes_ahead = True
    drafting.knowledge.propose_price = ProposePrice(1000.0)
    return drafting


async def test_it_is_settled_a_step_before_that_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafting = foreseeing_two()
    request = decoding(drafting)
    batch = batch_of(request)
    assert not drafting.askings.asks_nothing_next([request])
    drafting.askings.foresee(batch, overhead_ms=1.0)
    calls = count_budgets(drafting, monkeypatch)
    for _ in range(5):
        assert await drafting.draft(batch, overhead_ms=1.0) == {}
        assert drafting.askings.asks_nothing_next([request])
        drafting.askings.foresee(batch, overhead_ms=1.0)
    # Each step is decided once.
    assert calls == [1] * 5


async def test_an_exploration_is_foreseen_as_well() -> None:
    drafting = foreseeing_two(explore_share=0.5)
    request = decoding(drafting)
    batch = batch_of(request)
    assert drafting.knowledge.link is not None
    drafting.askings.foresee(batch, overhead_ms=1.0)
    promises, asked = [], []
    for _ in range(200):
        asked_before = drafting.present.number
        await drafting.draft(batch, overhead_ms=1.0)
        asked.append(drafting._asked_at > asked_before)
        promises.append(drafting.askings.asks_nothing_next([request]))
        drafting.askings.foresee(batch, overhead_ms=1.0)
    assert any(asked) and any(promises)
    assert not any(kept and follows for kept, follows in zip(promises, asked[1:], strict=False))


async def test_who_has_just_come_asks_with_the_others_and_not_before() -> None:
    drafting = foreseeing_two()
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    declines = decoding(drafting, "c", enabled=False)
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    await drafting.draft(batch_of(first), overhead_ms=1.0)
    assert drafting.askings.asks_nothing_next([first, declines])
    assert drafting.askings.asks_nothing_next([first, second])
    drafting.knowledge.propose_price = ProposePrice(0.0)
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    assert await drafting.draft(batch_of(first, second), overhead_ms=1.0) == {}
    assert not drafting.askings.asks_nothing_next([first, second])
    assert set(await drafting.draft(batch_of(first, second), overhead_ms=1.0)) == {first, second}


async def test_one_that_comes_while_others_ask_is_asked_for_at_once() -> None:
    drafting = foreseeing_two()
    drafting.knowledge.propose_price = ProposePrice(0.0)
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    assert not drafting.askings.asks_nothing_next([first, second])
    assert set(await drafting.draft(batch_of(first, second), overhead_ms=1.0)) == {first, second}


def test_where_nobody_can_be_asked_nothing_is() -> None:
    drafting = make_drafting(MemoryCandidates(), "off")
    assert drafting.askings.asks_nothing_next([decoding(drafting)])
    drafting = make_drafting(MemoryCandidates())
    request = decoding(drafting)
    drafting.knowledge.link = None
    assert drafting.askings.asks_nothing_next([request])


def wanting_features(drafting: Drafting) -> Drafting:
    assert drafting.knowledge.link is not None
    drafting.knowledge.link.info = CandidatesInfo(
        ("a", "b"), 4, feature_layers=(0, 2), num_features=3
    )
    drafting.knowledge.features = FeatureWishes((0, 1, 2), hidden_size=8)
    return drafting


async def test_features_are_wanted_of_each_request_while_candidates_are_asked() -> None:
    drafting = wanting_features(make_drafting(MemoryCandidates()))
    request, declines = decoding(drafting), decoding(drafting, "no", enabled=False)
    for _ in range(3):
        await drafting.draft(batch_of(request, declines), overhead_ms=1.0)
        assert drafting.askings.feature_wish([request, declines]) == FeatureWish((0, 2), 3)
        assert drafting.askings.feature_wish([declines]) == NO_FEATURES
        assert not drafting.askings.asks_nothing_next([request])
        drafting.askings.foresee(batch_of(request, declines), overhead_ms=1.0)


def test_where_nobody_can_be_asked_no_features_are_wanted() -> None:
    drafting = wanting_features(make_drafting(MemoryCandidates(), "off"))
    assert drafting.askings.feature_wish([decoding(drafting)]) == NO_FEATURES
    drafting = wanting_features(make_drafting(MemoryCandidates()))
    request = decoding(drafting)
    drafting.knowledge.link = None
    assert drafting.askings.feature_wish([request]) == NO_FEATURES


@pytest.mark.parametrize("computes_ahead", [True, False])
async def test_who_is_asked_always_has_the_features_of_the_step_before(
    computes_ahead: bool,
) -> None:
    """And what a step says of the next one holds."""
    drafting = wanting_features(foreseeing_two(explore_share=0.3))
    drafting.knowledge.computes_ahead = computes_ahead
    batch = batch_of(request := decoding(drafting))
    wished, asked, promised = [], [], []
    for _ in range(200):
        await drafting.draft(batch, overhead_ms=1.0)
        asked.append(drafting._asked_at == drafting.present.number)
        wished.append(drafting.askings.feature_wish([request]) != NO_FEATURES)
        promised.append(computes_ahead and drafting.askings.asks_nothing_next([request]))
        drafting.askings.foresee(batch, overhead_ms=1.0)
    assert any(asked) and not all(wished) and any(promised) == computes_ahead
    assert all(had for had, asks in zip(wished, asked[1:], strict=False) if asks)
    following = zip(promised, asked[1:], wished[1:], strict=False)
    assert not any(asks or wishes for kept, asks, wishes in following if kept)


async def test_a_request_that_joins_has_features_asked_of_all() -> None:
    drafting = wanting_features(foreseeing_two())
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    for _ in range(3):
        await drafting.draft(batch_of(first), overhead_ms=1.0)
        drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    await drafting.draft(batch_of(first), overhead_ms=1.0)
    assert drafting.askings.feature_wish([first]) == NO_FEATURES
    assert drafting.askings.feature_wish([first, second]) == FeatureWish((0, 2), 3)
