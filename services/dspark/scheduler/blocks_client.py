"""K/V blocks out of a verifier, and into one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dspark.exchange import Exchange
from dspark.kv_blocks import BlockType, ImportHead, KvBlocks
from dspark.rpc import errors_of
from dspark.step import SequenceRef
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.wire.kv_blocks import (
    blocks_from_proto,
    blocks_to_proto,
    head_to_proto,
    type_from_proto,
)


async def export_blocks(
    stub: pb_grpc.VerifierServiceStub, ref: SequenceRef, timeout_s: float
) -> AsyncGenerator[tuple[BlockType | None, KvBlocks], None]:
    """The blocks of a live sequence, the first with their type; every failure is a DSparkError."""
    sequence = pb.SequenceRef(request_id=ref.request_id, epoch=ref.epoch)
    call = stub.ExportBlocks(pb.ExportBlocksRequest(sequence=sequence), timeout=timeout_s)
    try:
        with errors_of("verifier"):
            async for message in call:
                kind = type_from_proto(message.type) if message.HasField("type") else None
                yield kind, blocks_from_proto(message.blocks)
    finally:
        call.cancel()


class BlocksImport:
    """One import; ``close`` ends it, and the verifier keeps what came."""

    def __init__(self, stub: pb_grpc.VerifierServiceStub, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._turns: Exchange[pb.ImportBlocksRequest, pb.ImportBlocksResponse] = Exchange(
            lambda: stub.ImportBlocks(), "verifier"
        )

    async def begin(self, head: ImportHead) -> int:
        """Leading tokens that are there already."""
        request = pb.ImportBlocksRequest(head=head_to_proto(head))
        return (await self._turns.call(request, self._timeout_s)).num_tokens

    async def add(self, blocks: KvBlocks) -> tuple[int, bool]:
        """Leading tokens that are there now, and whether no more fit."""
        request = pb.ImportBlocksRequest(blocks=blocks_to_proto(blocks))
        reply = await self._turns.call(request, self._timeout_s)
        return reply.num_tokens, reply.is_full

    def close(self) -> None:
        self._turns.close()
