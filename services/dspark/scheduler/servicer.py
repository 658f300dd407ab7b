"""SchedulerService over gRPC: decode, call, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from dspark.scheduler.request import Request
from dspark.scheduler.request_trace import traced
from dspark.scheduler.scheduler import Scheduler
from dspark.telemetry import current
from dspark.telemetry.grpc_carrier import carrier_of
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from dspark.wire.generation import event_to_proto, request_from_proto
from dspark.wire.sampling import stats_to_proto

SERVICE = "dspark.v1.SchedulerService"
_Context = aio.ServicerContext[Any, Any]


class SchedulerServicer(pb_grpc.SchedulerServiceServicer):
    """Every call is answered on the event loop that steps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def GetSchedulerInfo(
        self, request: pb.GetSchedulerInfoRequest, context: _Context
    ) -> pb.GetSchedulerInfoResponse:
        if (problem := self._scheduler.problem) is not None:
            raise problem
        info = self._scheduler.info
        verifier = info.verifier
        return pb.GetSchedulerInfoResponse(
            model_id=verifier.model_id,
            model_digest=verifier.model_digest,
            vocab_size=verifier.vocab_size,
            max_model_len=verifier.max_model_len,
            max_pool_tokens=verifier.pool_tokens,
            eos_token_ids=sorted(verifier.eos_token_ids),
            sources=info.sources,
            exactness=verifier.exactness,
            policy=info.policy,
        )

    async def Generate(
        self, request: pb.SchedulerServiceGenerateRequest, context: _Context
    ) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
        current.request_id.set(request.request_id)
        live = self._scheduler.submit(request_from_proto(request))
        # gRPC's callback and its call hold each other until the garbage collector comes for them:
        # they must not hold the request as well.
        running = [live]
        # Called however the call ends, also when this generator is not resumed any more.
        context.add_done_callback(lambda _: self._end(running))  # type: ignore[arg-type]
        try:
            with traced(carrier_of(context), live):
                async for event in live.stream:
                    yield event_to_proto(event)
        finally:
            self._end(running)

    def _end(self, running: list[Request]) -> None:
        """Cancel those that have not ended, and forget them."""
        while running:
            live = running.pop()
            self._scheduler.cancel(live)
            if live.trace is not None:
                live.trace.end(live)

    async def StopGeneration(
        self, request: pb.StopGenerationRequest, context: _Context
    ) -> pb.StopGenerationResponse:
        self._scheduler.stop(request.request_id)
        return pb.StopGenerationResponse()

    async def DrainWorker(
        self, request: pb.DrainWorkerRequest, context: _Context
    ) -> pb.DrainWorkerResponse:
        num_requests = self._scheduler.drain_worker(request.worker, resume=request.resume)
        return pb.DrainWorkerResponse(num_requests=num_requests)

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
            block_size=status.block_size,
            accepted_by_position=totals.accepted.by_position(),
        )
