"""The gateway's side of SchedulerService."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import grpc
from grpc import aio

from dspark import rpc
from dspark.errors import BackendUnavailable, DeadlineExceeded
from dspark.gateway.token_source import (
    SCHEDULER,
    GenerationRequest,
    SchedulerInfo,
    SchedulerStatus,
)
from dspark.generation import StreamEvent, TokensComplete
from dspark.telemetry import current
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from dspark.wire.generation import event_from_proto, request_to_proto
from dspark.wire.sampling import stats_from_proto

CONTROL_TIMEOUT_S = 2.0
END_TIMEOUT_S = 1.0


class SchedulerClient:
    """A TokenSource behind a gRPC channel to the scheduler at ``target``."""

    def __init__(self, target: str, tls: TlsFiles | None = None) -> None:
        self._channel = rpc.channel(target, tls, SCHEDULER)
        self._stub = pb_grpc.SchedulerServiceStub(self._channel)
        self._calls: set[aio.UnaryStreamCall[Any, Any]] = set()

    def abandon(self) -> None:
        """End every stream with BackendUnavailable: the scheduler is silent."""
        calls, self._calls = self._calls, set()
        for call in calls:
            call.cancel()

    async def close(self) -> None:
        await self._channel.close(None)

    async def info(self) -> SchedulerInfo:
        request = pb.GetSchedulerInfoRequest()
        with rpc.errors_of(SCHEDULER):
            reply = await self._stub.GetSchedulerInfo(request, timeout=CONTROL_TIMEOUT_S)
        return _info_from_proto(reply)

    async def status(self) -> SchedulerStatus:
        request = pb.GetSchedulerStatusRequest()
        with rpc.errors_of(SCHEDULER):
            reply = await self._stub.GetSchedulerStatus(request, timeout=CONTROL_TIMEOUT_S)
        return _status_from_proto(reply)

    async def stop(self, request_id: str) -> None:
        request = pb.StopGenerationRequest(request_id=request_id)
        with rpc.errors_of(SCHEDULER):
            await self._stub.StopGeneration(request, timeout=CONTROL_TIMEOUT_S)

    async def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        call = self._stub.Generate(
            request_to_proto(request), timeout=timeout_s, metadata=current.outgoing_metadata()
        )
        self._calls.add(call)
        is_complete = False
        try:
            # Not ``async for``: what gRPC makes for that would stay open where this ends before it.
            while (message := await call.read()) is not aio.EOF:  # type: ignore[attr-defined]
                event = event_from_proto(message)
                is_complete = isinstance(event, TokensComplete)
                yield event
                if is_complete:
                    return
            raise BackendUnavailable(SCHEDULER, "the stream ended before the request was complete")
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise DeadlineExceeded(f"the request did not end in {timeout_s:g} s") from error
            raise rpc.from_rpc_error(error, SCHEDULER) from error
        except asyncio.CancelledError:
            if call in self._calls:
                raise
            raise BackendUnavailable(SCHEDULER, "does not answer") from None
        finally:
            self._calls.discard(call)
            if is_complete:
                await _see_end(call)
            call.cancel()


async def _see_end(call: aio.UnaryStreamCall[Any, Any]) -> None:
    """Wait for the status, which is on its way: gRPC's server never frees all that a cancelled
    call held.
    """
    with contextlib.suppress(aio.AioRpcError, TimeoutError):
        async with asyncio.timeout(END_TIMEOUT_S):
            await call.read()


def _info_from_proto(message: pb.GetSchedulerInfoResponse) -> SchedulerInfo:
    return SchedulerInfo(
        vocab_size=message.vocab_size,
        max_model_len=message.max_model_len,
        max_pool_tokens=message.max_pool_tokens,
        eos_token_ids=frozenset(message.eos_token_ids),
        sources=tuple(message.sources),
        exactness=message.exactness,
        policy=message.policy,
    )


def _status_from_proto(message: pb.GetSchedulerStatusResponse) -> SchedulerStatus:
    return SchedulerStatus(
        num_running=message.num_running,
        num_waiting=message.num_waiting,
        num_free_blocks=message.num_free_blocks,
        num_blocks=message.num_blocks,
        block_size=message.block_size,
        num_preemptions=message.num_preemptions,
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
        accepted_by_position=tuple(message.accepted_by_position),
        speculation=stats_from_proto(message.speculation),
    )
