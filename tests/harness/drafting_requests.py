"""Decoding requests to draft for, and candidates in memory that propose for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

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
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.request import Request
from dspark.token_tree import chain

TREE = chain(range(8), "a", 0.9)


class MemoryCandidates:
    """Answers every item with ``answer``."""

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


def make_drafting(candidates: MemoryCandidates, policy: str = "fixed", **limits: int) -> Drafting:
    link = CandidatesLink(candidates, CircuitBreaker(3, 1.0, 30.0), propose_deadline_s=5.0)
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
    """A request with its anchor pending, known to the candidates."""
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
