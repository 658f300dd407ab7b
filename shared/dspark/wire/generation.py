"""Requests to the scheduler and their streams on the wire."""

from __future__ import annotations

from dspark.generation import RequestSpec, StreamEvent, TokenChunk, TokensComplete
from dspark.sampling import FinishReason
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.wire.logprobs import logprobs_from_proto, logprobs_to_proto
from dspark.wire.sampling import (
    breakdown_from_proto,
    breakdown_to_proto,
    finish_reason_from_proto,
    finish_reason_to_proto,
    request_class_from_proto,
    request_class_to_proto,
    sampling_from_proto,
    sampling_to_proto,
    speculation_from_proto,
    speculation_to_proto,
    stats_from_proto,
    stats_to_proto,
    times_from_proto,
    times_to_proto,
    usage_from_proto,
    usage_to_proto,
)


def request_to_proto(spec: RequestSpec) -> pb.SchedulerServiceGenerateRequest:
    return pb.SchedulerServiceGenerateRequest(
        request_id=spec.request_id,
        prompt_token_ids=spec.prompt_token_ids,
        sampling=sampling_to_proto(spec.sampling),
        speculation=speculation_to_proto(spec.speculation),
        cache_salt=spec.cache_salt,
        priority=spec.priority,
        use_prefix_cache=spec.use_prefix_cache,
        committed_token_ids=spec.committed_token_ids,
        arithmetic=spec.arithmetic,
        request_class=request_class_to_proto(spec.request_class),
        tenant=spec.tenant,
    )


def request_from_proto(message: pb.SchedulerServiceGenerateRequest) -> RequestSpec:
    return RequestSpec(
        request_id=message.request_id,
        prompt_token_ids=tuple(message.prompt_token_ids),
        sampling=sampling_from_proto(message.sampling),
        speculation=speculation_from_proto(message.speculation),
        cache_salt=message.cache_salt,
        priority=message.priority,
        use_prefix_cache=not message.HasField("use_prefix_cache") or message.use_prefix_cache,
        committed_token_ids=tuple(message.committed_token_ids),
        arithmetic=message.arithmetic,
        request_class=request_class_from_proto(message.request_class),
        tenant=message.tenant,
    )


def event_to_proto(event: StreamEvent) -> pb.SchedulerServiceGenerateResponse:
    if isinstance(event, TokenChunk):
        chunk = pb.TokenChunk(
            token_ids=event.token_ids,
            num_accepted=event.num_accepted,
            arithmetic=event.arithmetic,
            logprobs=logprobs_to_proto(event.logprobs),
            prompt_logprobs=logprobs_to_proto(event.prompt_logprobs),
        )
        return pb.SchedulerServiceGenerateResponse(chunk=chunk)
    return pb.SchedulerServiceGenerateResponse(complete=_complete_to_proto(event))


def event_from_proto(message: pb.SchedulerServiceGenerateResponse) -> StreamEvent:
    if message.WhichOneof("event") == "chunk":
        chunk = message.chunk
        return TokenChunk(
            tuple(chunk.token_ids),
            chunk.num_accepted,
            chunk.arithmetic,
            logprobs_from_proto(chunk.logprobs),
            logprobs_from_proto(chunk.prompt_logprobs),
        )
    return _complete_from_proto(message.complete)


def _complete_to_proto(end: TokensComplete) -> pb.TokensComplete:
    return pb.TokensComplete(
        finish_reason=finish_reason_to_proto(end.finish_reason),
        stop_token_id=end.stop_token_id,
        usage=usage_to_proto(end.usage),
        speculation=stats_to_proto(end.speculation),
        steps=breakdown_to_proto(end.steps),
        times=None if end.times is None else times_to_proto(end.times),
    )


def _complete_from_proto(message: pb.TokensComplete) -> TokensComplete:
    return TokensComplete(
        finish_reason=finish_reason_from_proto(message.finish_reason) or FinishReason.ERROR,
        stop_token_id=message.stop_token_id if message.HasField("stop_token_id") else None,
        usage=usage_from_proto(message.usage),
        speculation=stats_from_proto(message.speculation),
        steps=breakdown_from_proto(message.steps),
        times=times_from_proto(message.times) if message.HasField("times") else None,
    )
