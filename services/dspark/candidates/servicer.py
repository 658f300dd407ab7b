"""CandidatesService over gRPC."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from dspark.candidates.proposal_trace import trace_proposals
from dspark.candidates.proposer import Proposer
from dspark.v1 import candidates_service_pb2 as pb
from dspark.v1 import candidates_service_pb2_grpc as pb_grpc
from dspark.wire import proposal as wire

SERVICE_NAME = "dspark.v1.CandidatesService"
# What is left of a call's own deadline is needed to carry the reply home.
RETURN_TRIP_S = 0.001

_Context = aio.ServicerContext[Any, Any]


class CandidatesServicer(pb_grpc.CandidatesServiceServicer):
    """Messages in and out of a Proposer."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    async def GetCandidatesInfo(
        self, request: pb.GetCandidatesInfoRequest, context: _Context
    ) -> pb.GetCandidatesInfoResponse:
        return wire.info_to_proto(self._proposer.info)

    async def Propose(self, request: pb.ProposeRequest, context: _Context) -> pb.ProposeResponse:
        return await self._propose(request, _time_left(context))

    async def StreamPropose(
        self, requests: AsyncIterator[pb.StreamProposeRequest], context: _Context
    ) -> AsyncIterator[pb.StreamProposeResponse]:
        async for request in requests:
            wait_s = request.max_wait_ms / 1e3 - RETURN_TRIP_S if request.max_wait_ms else None
            yield pb.StreamProposeResponse(propose=await self._propose(request.propose, wait_s))

    async def _propose(
        self, request: pb.ProposeRequest, max_wait_s: float | None
    ) -> pb.ProposeResponse:
        arrived_ns = time.time_ns() if request.traceparents else 0
        outcome = await self._proposer.propose(
            wire.update_from_proto(request.update),
            wire.items_from_proto(request.items),
            max_wait_s,
        )
        if request.traceparents:
            # Runs once the reply is on its way.
            asyncio.get_running_loop().call_soon(
                trace_proposals, request.traceparents, arrived_ns, time.time_ns(), outcome
            )
        return wire.outcome_to_proto(outcome)

    async def Observe(self, request: pb.ObserveRequest, context: _Context) -> pb.ObserveResponse:
        unknown = self._proposer.observe(wire.update_from_proto(request.update))
        return pb.ObserveResponse(unknown_request_ids=unknown)


def _time_left(context: _Context) -> float | None:
    """Seconds until the caller stops waiting; None when it never does."""
    left = context.time_remaining()
    return None if left is None else max(0.0, left - RETURN_TRIP_S)
