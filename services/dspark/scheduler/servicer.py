"""SchedulerService over gRPC: decode, call, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from dspark.scheduler.events import StreamEvent, TokenChunk, TokensComplete
from dspark.scheduler.request import RequestSpec
from dspark.scheduler.scheduler import Scheduler
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from dspark.wire.sampling import (
    breakdown_to_proto,
    finish_reason_to_proto,
    sampling_from_proto,
    speculation_from_proto,
    stats_to_proto,
    usage_to_proto,
)

SERVICE = "dspark.v1.SchedulerService"
_Context = aio.ServicerContext[Any, Any]


class SchedulerServicer(pb_grpc.SchedulerServiceServicer):
    """Every call is answered on the event loop that steps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def GetSchedulerInfo(
        self, request: pb.GetSchedulerInfoRequest, context: _Context
    ) -> pb.GetSchedulerInfoResponse:
        info = self._scheduler.info
        verifier = info.verifier
        return pb.GetSchedulerInfoResponse(
            model_id=verifier.model_id,
            model_digest=verifier.model_digest,
            vocab_size=verifier.vocab_size,
            max_model_len=verifier.max_model_len,
            max_pool_tokens=verifier.block_size * verifier.num_blocks,
            eos_token_ids=sorted(verifier.eos_token_ids),
            sources=info.sources,
            exactness=verifier.exactness,
            policy=info.policy,
        )

    async def Generate(
        self, request: pb.SchedulerServiceGenerateRequest, context: _Context
    ) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
        live = self._scheduler.submit(_spec_from_proto(request))
        # Called however the call ends, also when this generator is not resumed any more.
        context.add_done_callback(lambda _: self._scheduler.cancel(live))  # type: ignore[arg-type]
        try:
            async for event in live.stream:
                yield _event_to_proto(event)
        finally:
            self._scheduler.cancel(live)

    async def StopGeneration(
        self, request: pb.StopGenerationRequest, context: _Context
    ) -> pb.StopGenerationResponse:
        self._scheduler.stop(request.request_id)
        return pb.StopGenerationResponse()

    async def GetSchedulerStatus(
        self, request: pb.GetSchedulerStatusRequest, context: _Context
    ) -> pb.GetSchedulerStatusResponse:
        status = self._scheduler.status
        totals = status.totals
        return pb.GetSchedulerStatusResponse(
            num_running=status.num_running,
            num_waiting=status.num_waiting,
            num_free_blocks=status.num_free_blocks,
            num_blocks=status.num_blocks,
            num_steps=totals.num_steps,
            num_preemptions=totals.num_preemptions,
            generation_tokens=totals.generation_tokens,
            prompt_tokens=totals.prompt_tokens,
            speculation=stats_to_proto(totals.speculation),
            cached_tokens=totals.cached_tokens,
        )


def _spec_from_proto(message: pb.SchedulerServiceGenerateRequest) -> RequestSpec:
    return RequestSpec(
        request_id=message.request_id,
        prompt_token_ids=tuple(message.prompt_token_ids),
        sampling=sampling_from_proto(message.sampling),
        speculation=speculation_from_proto(message.speculation),
        cache_salt=message.cache_salt,
        priority=message.priority,
        use_prefix_cache=not message.HasField("use_prefix_cache") or message.use_prefix_cache,
        committed_token_ids=tuple(message.committed_token_ids),
    )


def _event_to_proto(event: StreamEvent) -> pb.SchedulerServiceGenerateResponse:
    if isinstance(event, TokenChunk):
        chunk = pb.TokenChunk(token_ids=event.token_ids, num_accepted=event.num_accepted)
        return pb.SchedulerServiceGenerateResponse(chunk=chunk)
    return pb.SchedulerServiceGenerateResponse(complete=_complete_to_proto(event))


def _complete_to_proto(event: TokensComplete) -> pb.TokensComplete:
    return pb.TokensComplete(
        finish_reason=finish_reason_to_proto(event.finish_reason),
        stop_token_id=event.stop_token_id,
        usage=usage_to_proto(event.usage),
        speculation=stats_to_proto(event.speculation),
        steps=breakdown_to_proto(event.steps),
    )
