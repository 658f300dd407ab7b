"""What is asked of candidates, and what of their answers survives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dspark.circuit_breaker import CircuitBreaker
from dspark.generation import RequestSpec
from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
)
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.draft_knowledge import DraftKnowledge, DraftLimits
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish, FeatureWishes
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import Budget, PolicySettings, RequestView, StepContext
from dspark.scheduler.proposal_check import fitting
from dspark.scheduler.propose_price import ProposePrice
from dspark.scheduler.request import Request
from dspark.step import WorkResult, WorkStatus
from dspark.token_tree import TokenTree, chain

TREE = chain(range(8), "a", 0.9)


class Worker:
    """Candidates in memory: answers every item with ``answer``."""

    def __init__(self, answer: Callable[[ProposeItem], DraftProposal] | None = None) -> None:
        self.items: list[ProposeItem] = []
        self._answer = answer or (
            lambda item: DraftProposal(item.request_id, item.epoch, item.base_len, TREE)
        )

    async def info(self) -> CandidatesInfo:
        return CandidatesInfo(("a", "b"), 4)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        self.items.extend(items)
        return ProposeOutcome(tuple(self._answer(item) for item in items))

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return ()


def make_drafting(worker: Worker, policy: str = "fixed", **limits: int) -> Drafting:
    link = CandidatesLink(worker, CircuitBreaker(3, 1.0, 30.0), propose_deadline_s=5.0)
    link.info = CandidatesInfo(("a", "b"), 4)
    sizes = DraftLimits(100, 1000, 15, mute_after=2, mute_steps=10)
    settings = PolicySettings(num_draft_tokens=7)
    return Drafting(
        DraftKnowledge(
            POLICIES[policy](settings), link, replace(sizes, **limits), OnlineCosts([(1, 20.0)])
        )
    )


def decoding(
    drafting: Drafting, request_id: str = "r", max_tokens: int = 100, **speculation: object
) -> Request:
    """A request with its anchor pending, known to the worker."""
    request = Request(
        RequestSpec(
            request_id,
            (1, 2, 3),
            SamplingParams(max_tokens=max_tokens),
            SpeculationParams(**speculation),  # type: ignore[arg-type]
        ),
        0,
    )
    request.admit(epoch=1)
    request.num_computed_tokens = 3
    request.commit((4,))
    assert drafting.knowledge.link is not None
    graph = drafting.knowledge.link.graph
    graph.delivered(graph.next_update([request], whole=True), ())
    return request


def batch_of(*requests: Request, max_nodes: int = 100) -> Batch:
    return Batch(tuple(ScheduledRows(request, 1) for request in requests), max_nodes)


async def test_every_decoding_request_gets_its_tree() -> None:
    worker = Worker()
    drafting = make_drafting(worker)
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    drafts = await drafting.draft(batch_of(first, second), overhead_ms=1.0)
    assert {request: len(tree) for request, tree in drafts.items()} == {first: 7, second: 7}
    assert [(item.base_len, item.max_nodes) for item in worker.items] == [(4, 7), (4, 7)]


@pytest.mark.parametrize("max_tokens", range(1, 10))
async def test_nothing_is_asked_beyond_the_last_but_one_token(max_tokens: int) -> None:
    worker = Worker()
    drafting = make_drafting(worker)
    request = decoding(drafting, max_tokens=max_tokens)
    drafts = await drafting.draft(batch_of(request), overhead_ms=1.0)
    remaining = max_tokens - 1
    assert [item.max_depth for item in worker.items] == ([remaining - 1] if remaining > 1 else [])
    depths = [max(tree.depths) for tree in drafts.values()]
    assert depths == ([min(remaining - 1, 7)] if remaining > 1 else [])


@pytest.mark.parametrize(
    "speculation", [{"enabled": False}, {"max_draft_tokens": 0}, {"sources": ("c",)}]
)
async def test_a_request_may_decline(speculation: dict[str, object]) -> None:
    worker = Worker()
    drafting = make_drafting(worker)
    declines = decoding(drafting, "no", **speculation)
    takes = decoding(drafting, "yes", max_draft_tokens=3, sources=("b",))
    drafts = await drafting.draft(batch_of(declines, takes), overhead_ms=1.0)
    assert list(drafts) == [takes] and len(drafts[takes]) == 3
    assert [(i.request_id, i.max_nodes, i.sources) for i in worker.items] == [("yes", 3, ("b",))]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: replace(p, epoch=p.epoch + 1),
        lambda p: replace(p, epoch=p.epoch - 1),
        lambda p: replace(p, base_len=p.base_len - 1),
        lambda p: replace(p, base_len=p.base_len + 1),
        lambda p: replace(p, request_id="another"),
        lambda p: replace(p, tree=chain([100], "a")),
        lambda p: replace(p, tree=replace(p.tree, parents=(5,) * 8)),
        lambda p: replace(p, tree=replace(p.tree, scores=(math.nan,) * 8)),
        lambda p: replace(p, tree=replace(p.tree, scores=(2.0,) * 8)),
        lambda p: replace(p, tree=replace(p.tree, scores=(0.5,))),
        lambda p: replace(p, tree=replace(p.tree, source_masks=(2,) * 8)),
        lambda p: replace(p, tree=replace(p.tree, source_names=("unheard of",))),
    ],
)
async def test_stale_foreign_and_broken_proposals_are_dropped(
    spoil: Callable[[DraftProposal], DraftProposal],
) -> None:
    drafting = make_drafting(
        Worker(lambda i: spoil(DraftProposal(i.request_id, i.epoch, i.base_len, TREE)))
    )
    assert await drafting.draft(batch_of(decoding(drafting)), overhead_ms=1.0) == {}


async def test_a_request_that_ended_while_candidates_were_asked_gets_no_tree() -> None:
    ended: list[Request] = []

    def answer(item: ProposeItem) -> DraftProposal:
        ended[0].finish()
        return DraftProposal(item.request_id, item.epoch, item.base_len, TREE)

    drafting = make_drafting(Worker(answer))
    ended.append(decoding(drafting))
    assert await drafting.draft(batch_of(*ended), overhead_ms=1.0) == {}


async def test_a_source_that_is_always_wrong_is_not_asked_any_more_and_tried_again() -> None:
    def answer(item: ProposeItem) -> DraftProposal:
        tree = TREE if "a" in item.sources else TokenTree()
        return DraftProposal(item.request_id, item.epoch, item.base_len, tree)

    worker = Worker(answer)
    drafting = make_drafting(worker)
    request = decoding(drafting)
    for _ in range(14):
        drafts = await drafting.draft(batch_of(request), overhead_ms=1.0)
        wrong = WorkResult("r", 1, WorkStatus.DONE, 4, (99,))
        drafting.lessons.learn(request, drafts.get(request, TokenTree()), wrong)
    both, rest = ("a", "b"), ("b",)
    assert [item.sources for item in worker.items] == [both] * 2 + [rest] * 9 + [both] + [rest] * 2


async def test_the_policy_off_never_calls() -> None:
    worker = Worker()
    drafting = make_drafting(worker, policy="off")
    request = decoding(drafting)
    assert await drafting.draft(batch_of(request), overhead_ms=1.0) == {}
    drafting.lessons.observe([request])
    assert worker.items == [] and drafting.top_k == 0


async def test_successors_are_wanted_while_candidates_are_asked() -> None:
    drafting = make_drafting(Worker())
    assert drafting.top_k == 0
    request = decoding(drafting)
    await drafting.draft(batch_of(request), overhead_ms=1.0)
    assert drafting.top_k == 4
    for _ in range(10):
        await drafting.draft(batch_of(), overhead_ms=1.0)
    assert drafting.top_k == 0


def test_a_tree_is_cut_to_the_limits() -> None:
    tree = TokenTree((1, 2, 3, 4), (0, 1, 2, 0), (1,) * 4, (0.5,) * 4, ("a",))
    assert fitting(tree, 10, max_nodes=4, max_depth=3) == tree
    assert fitting(tree, 10, max_nodes=4, max_depth=1).token_ids == (1, 4)
    assert fitting(tree, 10, max_nodes=2, max_depth=3).token_ids == (1, 2)
    assert fitting(tree, 4, max_nodes=4, max_depth=3) == TokenTree()


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
    drafting = make_drafting(Worker())
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
    drafting = make_drafting(Worker())
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    calls = count_budgets(drafting, monkeypatch)
    assert len(await drafting.draft(batch_of(first, second), overhead_ms=1.0)) == 2
    assert calls == [2]


async def test_nobody_is_asked_when_nothing_was_foreseen() -> None:
    worker = Worker()
    drafting = make_drafting(worker, "economic")
    batch = batch_of(decoding(drafting, enabled=False))
    drafting.askings.foresee(batch, overhead_ms=1.0)
    assert await drafting.draft(batch, overhead_ms=1.0) == {}
    assert worker.items == []


async def test_what_was_foreseen_shrinks_to_what_is_left_of_the_request() -> None:
    worker = Worker()
    drafting = make_drafting(worker, max_len=8)
    request = decoding(drafting)
    drafting.askings.foresee(batch_of(request), overhead_ms=1.0)
    request.commit((5, 6))
    request.num_computed_tokens += 2
    await drafting.draft(batch_of(request), overhead_ms=1.0)
    assert [item.max_nodes for item in worker.items] == [2]


def test_requests_that_ended_meanwhile_leave_nothing_behind() -> None:
    drafting = make_drafting(Worker())
    request = decoding(drafting)
    batch = batch_of(request)
    drafting.askings.foresee(batch, overhead_ms=1.0)
    request.finish()
    drafting.knowledge.end(request, completed=True)
    assert not any(drafting.askings._foresight._steps)
    drafting.askings.foresee(batch, overhead_ms=1.0)
    assert not any(drafting.askings._foresight._steps)
    assert not drafting.knowledge.states


def foreseeing_two(*, explore_share: float = 0.0) -> Drafting:
    """Decides two steps at once; a step costs so little beside asking that none ever asks."""
    settings = PolicySettings(explore_share=explore_share)
    drafting = make_drafting(Worker(), "economic")
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


async def test_nothing_is_settled_for_a_request_that_just_began_to_decode() -> None:
    drafting = foreseeing_two()
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    declines = decoding(drafting, "c", enabled=False)
    drafting.askings.foresee(batch_of(first), overhead_ms=1.0)
    await drafting.draft(batch_of(first), overhead_ms=1.0)
    assert drafting.askings.asks_nothing_next([first, declines])
    assert not drafting.askings.asks_nothing_next([first, second])


def test_where_nobody_can_be_asked_nothing_is() -> None:
    drafting = make_drafting(Worker(), "off")
    assert drafting.askings.asks_nothing_next([decoding(drafting)])
    drafting = make_drafting(Worker())
    request = decoding(drafting)
    drafting.knowledge.link = None
    assert drafting.askings.asks_nothing_next([request])


async def test_asking_is_dearer_where_it_keeps_a_step_from_being_computed_ahead() -> None:
    costs: list[float] = []

    class Watching(type(POLICIES["off"](PolicySettings()))):  # type: ignore[misc]
        is_off = False

        def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
            costs.append(context.propose_ms)
            return [Budget()] * len(views)

    drafting = make_drafting(Worker())
    drafting.knowledge.policy = Watching(PolicySettings())
    batch = batch_of(decoding(drafting))
    await drafting.draft(batch, overhead_ms=1.0)
    drafting.present.lost_ms = 2.5
    await drafting.draft(batch, overhead_ms=1.0)
    assert costs[1] == pytest.approx(costs[0] + 2.5)


def wanting_features(drafting: Drafting) -> Drafting:
    assert drafting.knowledge.link is not None
    drafting.knowledge.link.info = CandidatesInfo(
        ("a", "b"), 4, feature_layers=(0, 2), num_features=3
    )
    drafting.knowledge.features = FeatureWishes((0, 1, 2), hidden_size=8)
    return drafting


async def test_features_are_wanted_of_each_request_while_candidates_are_asked() -> None:
    drafting = wanting_features(make_drafting(Worker()))
    request, declines = decoding(drafting), decoding(drafting, "no", enabled=False)
    for _ in range(3):
        await drafting.draft(batch_of(request, declines), overhead_ms=1.0)
        assert drafting.askings.feature_wish([request, declines]) == FeatureWish((0, 2), 3)
        assert drafting.askings.feature_wish([declines]) == NO_FEATURES
        assert not drafting.askings.asks_nothing_next([request])
        drafting.askings.foresee(batch_of(request, declines), overhead_ms=1.0)


def test_where_nobody_can_be_asked_no_features_are_wanted() -> None:
    drafting = wanting_features(make_drafting(Worker(), "off"))
    assert drafting.askings.feature_wish([decoding(drafting)]) == NO_FEATURES
    drafting = wanting_features(make_drafting(Worker()))
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
