"""Calls to the verifier."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dspark import rpc
from dspark.exchange import Exchange
from dspark.kv_blocks import BlockType, KvBlocks
from dspark.scheduler.blocks_client import BlocksImport, export_blocks
from dspark.step import SequenceRef, StepOutcome, StepPlan, VerifierInfo
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.wire.step import outcome_from_proto, plan_to_proto, verifier_info_from_proto

SERVICE = "dspark.v1.VerifierService"
INFO_TIMEOUT_S = 2.0


class VerifierClient:
    """One verifier; each failure is a DSparkError, BackendUnavailable if the call itself fails."""

    def __init__(self, target: str, step_timeout_s: float, tls: TlsFiles | None = None) -> None:
        self._channel = rpc.channel(target, tls, "verifier")
        self._stub = pb_grpc.VerifierServiceStub(self._channel)
        self._step_timeout_s = step_timeout_s
        # as many as there were steps under way at a time, which wait for each other there, not here
        self._streams: list[Exchange[pb.StreamStepRequest, pb.StreamStepResponse]] = []

    async def info(self) -> VerifierInfo:
        request = pb.GetVerifierInfoRequest()
        with rpc.errors_of("verifier"):
            message = await self._stub.GetVerifierInfo(request, timeout=INFO_TIMEOUT_S)
        return verifier_info_from_proto(message)

    async def step(self, plan: StepPlan) -> StepOutcome:
        """One attempt; repeating it with the same plan is safe."""
        request = pb.StreamStepRequest(step=plan_to_proto(plan))
        reply = await self._free_stream().call(request, self._step_timeout_s)
        return outcome_from_proto(reply.step)

    def _free_stream(self) -> Exchange[pb.StreamStepRequest, pb.StreamStepResponse]:
        for stream in self._streams:
            if not stream.is_busy:
                return stream
        self._streams.append(Exchange(lambda: self._stub.StreamStep(), "verifier"))
        return self._streams[-1]

    def export_blocks(
        self, ref: SequenceRef, timeout_s: float
    ) -> AsyncGenerator[tuple[BlockType | None, KvBlocks], None]:
        return export_blocks(self._stub, ref, timeout_s)

    def import_blocks(self, timeout_s: float) -> BlocksImport:
        return BlocksImport(self._stub, timeout_s)

    async def is_ready(self) -> bool:
        return await rpc.is_ready(self._channel, SERVICE)

    async def close(self) -> None:
        for stream in self._streams:
            stream.close()
        await self._channel.close(None)
