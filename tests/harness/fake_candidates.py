"""CandidatesService that follows a script, on a real socket, with scripted faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grpc import aio

from dspark.errors import NotReady
from dspark.proposal import (
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
    SequenceEnd,
    Successors,
)
from dspark.token_tree import TokenTree
from dspark.v1 import candidates_service_pb2 as pb
from dspark.v1 import candidates_service_pb2_grpc as pb_grpc
from dspark.wire import proposal as wire
from harness.scripted_drafters import Drafter
from harness.socket_server import FakeService


@dataclass
class FakeCandidates(FakeService):
    """Start it, point a scheduler at ``target``, read what it saw.

    ``drafter`` is used for every request, or by request id if it is a dictionary. ``alter`` changes
    a proposal on its way out, so stale and foreign ones can be made.
    """

    name: ClassVar[str] = "dspark.v1.CandidatesService"
    drafter: Drafter | dict[str, Drafter] = field(default_factory=dict)
    sources: tuple[str, ...] = ("scripted",)
    top_k: int = 0
    feature_layers: tuple[int, ...] = ()
    num_features: int = 0
    delay_s: float = 0.0
    is_down: bool = False
    alter: Callable[[DraftProposal], DraftProposal] = lambda proposal: proposal
    items: list[ProposeItem] = field(default_factory=list)
    updates: list[CandidatesUpdate] = field(default_factory=list)
    releases: list[SequenceEnd] = field(default_factory=list)
    successors: list[Successors] = field(default_factory=list)
    num_proposes: int = 0

    def __post_init__(self) -> None:
        self.sequences: dict[str, tuple[int, list[int]]] = {}

    def add_to(self, server: aio.Server) -> None:
        pb_grpc.add_CandidatesServiceServicer_to_server(_Servicer(self), server)

    async def propose(
        self, update: CandidatesUpdate, items: Sequence[ProposeItem]
    ) -> ProposeOutcome:
        await self._misbehave()
        self.num_proposes += 1
        unknown = set(self.observe(update))
        proposals = []
        for item in items:
            self.items.append(item)
            epoch, token_ids = self.sequences.get(item.request_id, (0, []))
            if (epoch, len(token_ids)) != (item.epoch, item.base_len):
                unknown.add(item.request_id)
                continue
            tree = self._drafter_of(item.request_id)(token_ids)
            proposal = DraftProposal(item.request_id, item.epoch, item.base_len, tree)
            proposals.append(self.alter(proposal))
        return ProposeOutcome(tuple(proposals), tuple(unknown), dict.fromkeys(self.sources, 1))

    def observe(self, update: CandidatesUpdate) -> list[str]:
        """Apply an update; returns ids that must be sent whole."""
        self.updates.append(update)
        unknown = []
        for new in update.sequences:
            epoch, token_ids = self.sequences.get(new.request_id, (0, []))
            if new.base_len and (epoch, len(token_ids)) != (new.epoch, new.base_len):
                unknown.append(new.request_id)
                continue
            known = token_ids if new.base_len else []
            self.sequences[new.request_id] = (new.epoch, [*known, *new.token_ids])
        self.successors.extend(update.successors)
        for end in update.releases:
            self.releases.append(end)
            if self.sequences.get(end.request_id, (end.epoch + 1, []))[0] <= end.epoch:
                del self.sequences[end.request_id]
        return unknown

    async def observe_call(self, update: CandidatesUpdate) -> list[str]:
        await self._misbehave()
        return self.observe(update)

    async def _misbehave(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.is_down:
            raise NotReady("scripted outage")

    def _drafter_of(self, request_id: str) -> Drafter:
        if not isinstance(self.drafter, dict):
            return self.drafter
        return self.drafter.get(request_id, lambda token_ids: TokenTree())


class _Servicer(pb_grpc.CandidatesServiceServicer):
    def __init__(self, fake: FakeCandidates) -> None:
        self._fake = fake

    async def GetCandidatesInfo(
        self, request: pb.GetCandidatesInfoRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetCandidatesInfoResponse:
        fake = self._fake
        return pb.GetCandidatesInfoResponse(
            sources=fake.sources,
            top_k=fake.top_k,
            feature_layers=fake.feature_layers,
            num_features=fake.num_features,
        )

    async def Propose(
        self, request: pb.ProposeRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.ProposeResponse:
        update = wire.update_from_proto(request.update)
        outcome = await self._fake.propose(update, wire.items_from_proto(request.items))
        return wire.outcome_to_proto(outcome)

    async def StreamPropose(
        self,
        requests: AsyncIterator[pb.StreamProposeRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.StreamProposeResponse]:
        async for request in requests:
            yield pb.StreamProposeResponse(propose=await self.Propose(request.propose, context))

    async def Observe(
        self, request: pb.ObserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.ObserveResponse:
        unknown = await self._fake.observe_call(wire.update_from_proto(request.update))
        return pb.ObserveResponse(unknown_request_ids=unknown)
