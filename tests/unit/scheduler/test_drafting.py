"""What is asked of candidates, and what of their answers survives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dspark.proposal import DraftProposal, ProposeItem
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import Budget, PolicySettings, RequestView, StepContext
from dspark.scheduler.proposal_check import fitting
from dspark.scheduler.request import Request
from dspark.step import WorkResult, WorkStatus
from dspark.token_tree import TokenTree, chain
from harness.drafting_requests import TREE, MemoryCandidates, batch_of, decoding, make_drafting


async def test_every_decoding_request_gets_its_tree() -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates)
    first, second = decoding(drafting, "a"), decoding(drafting, "b")
    drafts = await drafting.draft(batch_of(first, second), overhead_ms=1.0)
    assert {request: len(tree) for request, tree in drafts.items()} == {first: 7, second: 7}
    assert [(item.base_len, item.max_nodes) for item in candidates.items] == [(4, 7), (4, 7)]


@pytest.mark.parametrize("max_tokens", range(1, 10))
async def test_nothing_is_asked_beyond_the_last_but_one_token(max_tokens: int) -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates)
    request = decoding(drafting, max_tokens=max_tokens)
    drafts = await drafting.draft(batch_of(request), overhead_ms=1.0)
    remaining = max_tokens - 1
    assert [item.max_depth for item in candidates.items] == (
        [remaining - 1] if remaining > 1 else []
    )
    depths = [max(tree.depths) for tree in drafts.values()]
    assert depths == ([min(remaining - 1, 7)] if remaining > 1 else [])


@pytest.mark.parametrize(
    "speculation", [{"enabled": False}, {"max_draft_tokens": 0}, {"sources": ("c",)}]
)
async def test_a_request_may_decline(speculation: dict[str, object]) -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates)
    declines = decoding(drafting, "no", **speculation)
    takes = decoding(drafting, "yes", max_draft_tokens=3, sources=("b",))
    drafts = await drafting.draft(batch_of(declines, takes), overhead_ms=1.0)
    assert list(drafts) == [takes] and len(drafts[takes]) == 3
    assert [(i.request_id, i.max_nodes, i.sources) for i in candidates.items] == [
        ("yes", 3, ("b",))
    ]


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
        MemoryCandidates(lambda i: spoil(DraftProposal(i.request_id, i.epoch, i.base_len, TREE)))
    )
    assert await drafting.draft(batch_of(decoding(drafting)), overhead_ms=1.0) == {}


async def test_a_request_that_ended_while_candidates_were_asked_gets_no_tree() -> None:
    ended: list[Request] = []

    def answer(item: ProposeItem) -> DraftProposal:
        ended[0].finish()
        return DraftProposal(item.request_id, item.epoch, item.base_len, TREE)

    drafting = make_drafting(MemoryCandidates(answer))
    ended.append(decoding(drafting))
    assert await drafting.draft(batch_of(*ended), overhead_ms=1.0) == {}


async def test_a_source_that_is_always_wrong_is_not_asked_any_more_and_tried_again() -> None:
    def answer(item: ProposeItem) -> DraftProposal:
        tree = TREE if "a" in item.sources else TokenTree()
        return DraftProposal(item.request_id, item.epoch, item.base_len, tree)

    candidates = MemoryCandidates(answer)
    drafting = make_drafting(candidates)
    request = decoding(drafting)
    for _ in range(14):
        drafts = await drafting.draft(batch_of(request), overhead_ms=1.0)
        wrong = WorkResult("r", 1, WorkStatus.DONE, 4, (99,))
        drafting.lessons.learn(request, drafts.get(request, TokenTree()), wrong)
    both, rest = ("a", "b"), ("b",)
    asked = [item.sources for item in candidates.items]
    assert asked == [both] * 2 + [rest] * 9 + [both] + [rest] * 2


async def test_the_policy_off_never_calls() -> None:
    candidates = MemoryCandidates()
    drafting = make_drafting(candidates, policy="off")
    request = decoding(drafting)
    assert await drafting.draft(batch_of(request), overhead_ms=1.0) == {}
    drafting.lessons.observe([request])
    assert candidates.items == [] and drafting.top_k == 0


async def test_successors_are_wanted_while_candidates_are_asked() -> None:
    drafting = make_drafting(MemoryCandidates())
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


async def test_asking_is_dearer_where_it_keeps_a_step_from_being_computed_ahead() -> None:
    costs: list[float] = []

    class Watching(type(POLICIES["off"](PolicySettings()))):  # type: ignore[misc]
        is_off = False

        def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
            costs.append(context.propose_ms)
            return [Budget()] * len(views)

    drafting = make_drafting(MemoryCandidates())
    drafting.knowledge.policy = Watching(PolicySettings())
    batch = batch_of(decoding(drafting))
    await drafting.draft(batch, overhead_ms=1.0)
    drafting.present.lost_ms = 2.5
    await drafting.draft(batch, overhead_ms=1.0)
    assert costs[1] == pytest.approx(costs[0] + 2.5)
