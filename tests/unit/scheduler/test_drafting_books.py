"""Why a step has no candidates, and what was asked of whom, is counted where it is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dspark.circuit_breaker import CircuitBreaker
from dspark.errors import BackendUnavailable
from dspark.generation import RequestSpec
from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
)
from dspark.sampling import SamplingParams
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.draft_knowledge import DraftKnowledge, DraftLimits
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.drafting_books import Fallback
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.request import Request
from dspark.step import WorkResult, WorkStatus
from dspark.token_tree import TokenTree, chain

Tree = Callable[[], TokenTree]
GOOD = chain([5, 6, 7], "a", score=0.9)


class Candidates:
    """Proposes one tree for each item, at a cost."""

    def __init__(self, tree: TokenTree, costs: dict[str, int], fails: bool = False) -> None:
        self._tree, self._costs, self._fails = tree, costs, fails

    async def info(self) -> CandidatesInfo:
        return CandidatesInfo(("a", "b"), 0)

    async def propose(
        self, update: CandidatesUpdate, items: Sequence[ProposeItem], *rest: object
    ) -> ProposeOutcome:
        if self._fails:
            raise BackendUnavailable("candidates", "scripted")
        proposals = (DraftProposal(i.request_id, i.epoch, i.base_len, self._tree) for i in items)
        return ProposeOutcome(tuple(proposals), source_costs_ns=self._costs)

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return ()


def drafting_of(
    tree: TokenTree = GOOD,
    *,
    policy: str = "fixed",
    costs: dict[str, int] | None = None,
    fails: bool = False,
) -> Drafting:
    link = CandidatesLink(Candidates(tree, costs or {}, fails), CircuitBreaker(1, 60.0, 60.0), 5.0)
    link.info = CandidatesInfo(("a", "b"), 0)
    limits = DraftLimits(100, 1000, 15, mute_after=2, mute_steps=10)
    return Drafting(DraftKnowledge(POLICIES[policy](PolicySettings()), link, limits, None))


def decoding(drafting: Drafting) -> Request:
    request = Request(RequestSpec("r", (1, 2, 3), SamplingParams(max_tokens=100)), 0)
    request.admit(epoch=1)
    request.num_computed_tokens = 3
    request.commit((4,))
    if drafting.knowledge.link is not None:
        graph = drafting.knowledge.link.graph
        graph.delivered(graph.next_update([request], whole=True), ())
    return request


async def step(drafting: Drafting) -> None:
    batch = Batch((ScheduledRows(decoding(drafting), 1),), max_nodes=100)
    await drafting.draft(batch, overhead_ms=1.0)


def without_link() -> Drafting:
    return Drafting(replace(drafting_of().knowledge, link=None))


def unconnected() -> Drafting:
    drafting = drafting_of()
    assert drafting.knowledge.link is not None
    drafting.knowledge.link.info = None
    return drafting


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: drafting_of(policy="off"), Fallback.OFF),
        (without_link, Fallback.NO_SERVICE),
        (unconnected, Fallback.UNAVAILABLE),
        (lambda: drafting_of(policy="economic"), Fallback.NOT_ASKED),
        (lambda: drafting_of(fails=True), Fallback.LATE),
        (lambda: drafting_of(TokenTree()), Fallback.EMPTY),
        (lambda: drafting_of(chain([100], "a")), Fallback.EMPTY),
    ],
)
async def test_each_step_without_candidates_has_its_reason(
    make: Callable[[], Drafting], reason: Fallback
) -> None:
    drafting = make()
    await step(drafting)
    assert drafting.knowledge.books.fallbacks == {reason: 1}


async def test_an_open_breaker_is_a_reason_of_its_own() -> None:
    drafting = drafting_of(fails=True)
    await step(drafting)
    await step(drafting)
    assert drafting.knowledge.books.fallbacks == {Fallback.LATE: 1, Fallback.UNAVAILABLE: 1}


async def test_a_step_with_candidates_and_one_without_decodes_are_no_fallbacks() -> None:
    drafting = drafting_of()
    await step(drafting)
    prompt = Request(RequestSpec("p", (1, 2, 3), SamplingParams()), 0)
    prompt.admit(epoch=1)
    await drafting.draft(Batch((ScheduledRows(prompt, 3),), max_nodes=100), overhead_ms=1.0)
    assert not drafting.knowledge.books.fallbacks


async def test_what_was_proposed_and_its_cost_go_to_its_sources() -> None:
    drafting = drafting_of(costs={"a": 1500, "b": 500})
    for _ in range(2):
        await step(drafting)
    assert drafting.knowledge.books.proposed.by_source() == {"a": 6}
    assert drafting.knowledge.books.source_ns == {"a": 3000, "b": 1000}


async def test_sources_that_do_not_run_are_not_counted() -> None:
    drafting = drafting_of(chain([5], "made up"), costs={"made up": 1})
    await step(drafting)
    assert (
        not drafting.knowledge.books.proposed.by_source() and not drafting.knowledge.books.source_ns
    )


def test_each_mute_is_counted() -> None:
    drafting = drafting_of()
    request = decoding(drafting)
    wrong = WorkResult("r", 1, WorkStatus.DONE, committed_token_ids=(9,))
    for _ in range(2):
        drafting.lessons.learn(request, GOOD, wrong)
    assert drafting.knowledge.books.mutes == {"a": 1}
