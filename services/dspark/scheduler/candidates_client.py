"""Calls to a candidates service."""

from __future__ import annotations

from collections.abc import Sequence

from dspark import rpc
from dspark.circuit_breaker import CircuitBreaker
from dspark.exchange import Exchange
from dspark.proposal import CandidatesInfo, CandidatesUpdate, ProposeItem, ProposeOutcome
from dspark.scheduler.candidates_fleet import CandidatesFleet
from dspark.scheduler.config import SchedulerConfig
from dspark.service_addresses import watch_addresses
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import candidates_service_pb2 as pb
from dspark.v1 import candidates_service_pb2_grpc as pb_grpc
from dspark.wire.proposal import (
    info_from_proto,
    items_to_proto,
    outcome_from_proto,
    update_to_proto,
)

CANDIDATES = "candidates"  # its name in errors
INFO_TIMEOUT_S = 1.0
MAX_BREAKER_OPEN_S = 30.0


class CandidatesClient:
    """One candidates worker; every failure is a DSparkError, a missed deadline too."""

    def __init__(self, target: str, tls: TlsFiles | None = None) -> None:
        self._channel = rpc.channel(target, tls, CANDIDATES)
        self._stub = pb_grpc.CandidatesServiceStub(self._channel)
        self._proposals: Exchange[pb.StreamProposeRequest, pb.StreamProposeResponse] = Exchange(
            lambda: self._stub.StreamPropose(), CANDIDATES
        )

    async def info(self) -> CandidatesInfo:
        request = pb.GetCandidatesInfoRequest()
        with rpc.errors_of(CANDIDATES):
            message = await self._stub.GetCandidatesInfo(request, timeout=INFO_TIMEOUT_S)
        return info_from_proto(message)

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        propose = pb.ProposeRequest(
            update=update_to_proto(update), items=items_to_proto(items), traceparents=traceparents
        )
        request = pb.StreamProposeRequest(propose=propose, max_wait_ms=timeout_s * 1e3)
        reply = await self._proposals.call(request, timeout_s)
        return outcome_from_proto(reply.propose)

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        """Ids of sequences that must be sent whole."""
        message = pb.ObserveRequest(update=update_to_proto(update))
        with rpc.errors_of(CANDIDATES):
            reply = await self._stub.Observe(message, timeout=timeout_s)
        return tuple(reply.unknown_request_ids)

    async def close(self) -> None:
        self._proposals.close()
        await self._channel.close(None)


def new_fleet(config: SchedulerConfig) -> CandidatesFleet:
    """All candidates services that the configuration names."""

    def new_breaker() -> CircuitBreaker:
        failures, pause_s = config.breaker_failures, config.breaker_open_s
        return CircuitBreaker(failures, pause_s, MAX_BREAKER_OPEN_S)

    return CandidatesFleet(
        lambda: watch_addresses(config.candidates),
        lambda address: CandidatesClient(address, config.tls),
        new_breaker,
        config.propose_deadline_ms / 1e3,
    )
