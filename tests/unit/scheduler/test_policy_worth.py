"""Whether the economic policy's purchases pay, in simulated time over measured-like costs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

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
from dspark.sampling import SamplingParams
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.draft_knowledge import DraftKnowledge, DraftLimits
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.propose_price import ProposePrice
from dspark.scheduler.request import Request
from dspark.step import WorkResult, WorkStatus
from dspark.token_tree import TokenTree, chain

Points = tuple[tuple[int, float], ...]
CPU = ((1, 22.0), (8, 28.0), (16, 40.0), (64, 110.0))
FLAT = ((1, 22.0), (512, 23.0))
OVERHEAD_MS = 2.0
PROPOSE_MS = 2.0
NUM_STEPS = 300
RIGHT, WRONG = 1, 2


@dataclass
class Source:
    """Proposes chains that claim one score and are right with another probability.

    ``hit_rate`` is the share of steps at which it has anything to propose.
    """

    claimed: float
    true: float
    hit_rate: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.generator = random.Random(self.seed)
        self.num_calls = 0

    async def info(self) -> CandidatesInfo:
        return CandidatesInfo(("a",), 0)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        self.num_calls += 1
        return ProposeOutcome(tuple(self._answer(item) for item in items))

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return ()

    def _answer(self, item: ProposeItem) -> DraftProposal:
        length = item.max_nodes if self.generator.random() < self.hit_rate else 0
        tree = chain([RIGHT] * length, "a", self.claimed)
        return DraftProposal(item.request_id, item.epoch, item.base_len, tree)

    def verify(self, tree: TokenTree) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Accepted nodes and committed tokens; each next token is as likely right as any."""
        accepted, drawn = 0, self._draw()
        while accepted < len(tree) and drawn == RIGHT:
            accepted, drawn = accepted + 1, self._draw()
        return tuple(range(1, accepted + 1)), (*[RIGHT] * accepted, drawn)

    def _draw(self) -> int:
        return RIGHT if self.generator.random() < self.true else WRONG


async def tokens_per_ms(source: Source, costs: Points, num_requests: int, policy: str) -> float:
    link = CandidatesLink(source, CircuitBreaker(3, 1.0, 30.0), propose_deadline_s=10.0)
    link.info = await source.info()
    limits = DraftLimits(10, 10**6, 15, mute_after=10**6, mute_steps=1)
    knowledge = DraftKnowledge(POLICIES[policy](PolicySettings()), link, limits, OnlineCosts(costs))
    drafting = Drafting(knowledge)
    requests = [_decoding(drafting, index) for index in range(num_requests)]
    table, num_tokens, total_ms = CostTable(costs), 0, 0.0
    for _ in range(NUM_STEPS):
        num_calls = source.num_calls
        drafting.knowledge.propose_price = ProposePrice(PROPOSE_MS)
        batch = Batch(tuple(ScheduledRows(request, 1) for request in requests), max_nodes=200)
        drafts = await drafting.draft(batch, OVERHEAD_MS)
        num_nodes = sum(len(tree) for tree in drafts.values())
        total_ms += OVERHEAD_MS + table.ms(num_requests + num_nodes)
        total_ms += PROPOSE_MS * (source.num_calls - num_calls)
        for request in requests:
            tree = drafts.get(request, TokenTree())
            accepted, committed = source.verify(tree)
            num_tokens += len(committed)
            drafting.lessons.learn(request, tree, _result(request, accepted, committed))
    return num_tokens / total_ms


def _decoding(drafting: Drafting, index: int) -> Request:
    request = Request(RequestSpec(f"r{index}", (1, 2), SamplingParams(max_tokens=10**6)), index)
    request.admit(epoch=index + 1)
    request.num_computed_tokens = 1
    assert drafting.knowledge.link is not None
    graph = drafting.knowledge.link.graph
    graph.delivered(graph.next_update([request], whole=True), ())
    return request


def _result(request: Request, accepted: tuple[int, ...], committed: tuple[int, ...]) -> WorkResult:
    return WorkResult(request.request_id, request.epoch, WorkStatus.DONE, 1, committed, accepted)


@pytest.mark.parametrize("costs", [CPU, FLAT], ids=["cpu", "flat"])
@pytest.mark.parametrize("num_requests", [1, 8])
@pytest.mark.parametrize(
    ("claimed", "true", "hit_rate"),
    [(0.9, 0.0, 1.0), (0.9, 0.1, 1.0), (0.5, 0.5, 1.0), (0.8, 0.8, 0.3), (0.3, 0.9, 1.0)],
)
async def test_speculation_does_not_cost_more_than_it_explores(
    claimed: float, true: float, hit_rate: float, num_requests: int, costs: Points
) -> None:
    source = Source(claimed, true, hit_rate)
    on = await tokens_per_ms(source, costs, num_requests, "economic")
    off = await tokens_per_ms(source, costs, num_requests, "off")
    assert on > 0.95 * off


@pytest.mark.parametrize(
    ("true", "num_requests", "costs", "gain"),
    [(0.7, 1, CPU, 1.5), (0.9, 1, CPU, 2.5), (0.9, 8, CPU, 1.1), (0.6, 8, FLAT, 2.0)],
)
async def test_good_candidates_pay(
    true: float, num_requests: int, costs: Points, gain: float
) -> None:
    source = Source(true, true)
    on = await tokens_per_ms(source, costs, num_requests, "economic")
    off = await tokens_per_ms(source, costs, num_requests, "off")
    assert on > gain * off


async def test_a_source_that_undersells_itself_is_found_by_exploring() -> None:
    source = Source(claimed=0.02, true=0.9)
    on = await tokens_per_ms(source, CPU, 1, "economic")
    off = await tokens_per_ms(source, CPU, 1, "off")
    assert on > 1.5 * off
