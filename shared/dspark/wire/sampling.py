"""Sampling and speculation parameters, usage and statistics on the wire."""

from __future__ import annotations

from typing import Any

from dspark.errors import InvalidArgument
from dspark.request_class import RequestClass
from dspark.sampling import (
    FinishReason,
    RequestTimes,
    SamplingParams,
    SourceCounts,
    SpeculationParams,
    SpeculationStats,
    StepBreakdown,
    Usage,
)
from dspark.v1 import sampling_pb2 as pb
from dspark.wire.sampling_options import options_to_proto, stated_lists, stated_options
from dspark.wire.structured_output import structured_from_proto, structured_to_proto

_FINISH_TO_PROTO = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.ABORT: pb.FINISH_REASON_ABORT,
    FinishReason.ERROR: pb.FINISH_REASON_ERROR,
}
_CLASS_TO_PROTO = {
    RequestClass.INTERACTIVE: pb.REQUEST_CLASS_INTERACTIVE,
    RequestClass.BATCH: pb.REQUEST_CLASS_BATCH,
}
_CLASS_FROM_PROTO = {value: key for key, value in _CLASS_TO_PROTO.items()} | {
    pb.REQUEST_CLASS_UNSPECIFIED: RequestClass.INTERACTIVE
}
_FINISH_FROM_PROTO = {value: key for key, value in _FINISH_TO_PROTO.items()}
SAMPLING_SCALARS = ("temperature", "top_k", "top_p", "min_p", "seed", "max_tokens", "ignore_eos")


def finish_reason_to_proto(reason: FinishReason | None) -> pb.FinishReason:
    return pb.FINISH_REASON_UNSPECIFIED if reason is None else _FINISH_TO_PROTO[reason]


def finish_reason_from_proto(reason: pb.FinishReason) -> FinishReason | None:
    return _FINISH_FROM_PROTO.get(reason)


def request_class_to_proto(request_class: RequestClass) -> pb.RequestClass:
    return _CLASS_TO_PROTO[request_class]


def request_class_from_proto(value: pb.RequestClass) -> RequestClass:
    """Raises InvalidArgument for a value that a later version may know."""
    if value not in _CLASS_FROM_PROTO:
        raise InvalidArgument("request_class", f"{value} is no class that is known here")
    return _CLASS_FROM_PROTO[value]


def sampling_to_proto(params: SamplingParams) -> pb.SamplingParams:
    message = pb.SamplingParams(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=params.seed,
        max_tokens=params.max_tokens,
        stop_token_ids=sorted(params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        structured=None if params.structured is None else structured_to_proto(params.structured),
    )
    options_to_proto(params, message)
    return message


def stated_scalars(message: pb.SamplingParams) -> dict[str, Any]:
    """The scalars that are set, by name."""
    return {name: getattr(message, name) for name in SAMPLING_SCALARS if message.HasField(name)}


def sampling_from_proto(message: pb.SamplingParams) -> SamplingParams:
    """Between services every scalar of SAMPLING_SCALARS is set; raises InvalidArgument naming one
    that is not.
    """
    stated = stated_scalars(message)
    for name in SAMPLING_SCALARS:
        if name not in stated:
            raise InvalidArgument(f"sampling.{name}", "must be set between services")
    lists = stated_lists(message)
    lists["allowed_token_ids"] = frozenset(lists["allowed_token_ids"])
    structured = None
    if message.HasField("structured"):
        structured = structured_from_proto(message.structured)
    return SamplingParams(
        stop_token_ids=frozenset(message.stop_token_ids),
        structured=structured,
        **stated,
        **stated_options(message),
        **lists,
    )


def speculation_to_proto(params: SpeculationParams) -> pb.SpeculationParams:
    return pb.SpeculationParams(
        enabled=params.enabled,
        sources=params.sources,
        max_draft_tokens=params.max_draft_tokens,
        policy=params.policy,
    )


def speculation_from_proto(message: pb.SpeculationParams) -> SpeculationParams:
    return SpeculationParams(
        enabled=message.enabled if message.HasField("enabled") else True,
        sources=tuple(message.sources),
        max_draft_tokens=message.max_draft_tokens if message.HasField("max_draft_tokens") else None,
        policy=message.policy,
    )


def stats_to_proto(stats: SpeculationStats) -> pb.SpeculationStats:
    return pb.SpeculationStats(
        rounds=stats.rounds,
        drafted=stats.drafted,
        accepted=stats.accepted,
        sources=[
            pb.SourceStats(name=name, drafted=counts.drafted, accepted=counts.accepted)
            for name, counts in sorted(stats.sources.items())
        ],
    )


def stats_from_proto(message: pb.SpeculationStats) -> SpeculationStats:
    return SpeculationStats(
        rounds=message.rounds,
        drafted=message.drafted,
        accepted=message.accepted,
        sources={s.name: SourceCounts(s.drafted, s.accepted) for s in message.sources},
    )


def usage_to_proto(usage: Usage) -> pb.Usage:
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
    )


def usage_from_proto(message: pb.Usage) -> Usage:
    return Usage(message.prompt_tokens, message.completion_tokens, message.cached_tokens)


def breakdown_to_proto(steps: StepBreakdown) -> pb.StepBreakdown:
    return pb.StepBreakdown(
        propose_ms=steps.propose_ms,
        verify_ms=steps.verify_ms,
        forward_ms=steps.forward_ms,
        overhead_ms=steps.overhead_ms,
        ahead_ms=steps.ahead_ms,
    )


def breakdown_from_proto(message: pb.StepBreakdown) -> StepBreakdown:
    return StepBreakdown(
        message.propose_ms,
        message.verify_ms,
        message.forward_ms,
        message.overhead_ms,
        message.ahead_ms,
    )


def times_to_proto(times: RequestTimes) -> pb.RequestTimes:
    return pb.RequestTimes(
        queue_ms=times.queue_ms, prefill_ms=times.prefill_ms, decode_ms=times.decode_ms
    )


def times_from_proto(message: pb.RequestTimes) -> RequestTimes:
    return RequestTimes(message.queue_ms, message.prefill_ms, message.decode_ms)
