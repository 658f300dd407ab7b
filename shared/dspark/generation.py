"""A request in token ids, and the stream that answers it (wire form: scheduler_service.proto)."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.logprobs import TokenLogprobs
from dspark.request_class import RequestClass
from dspark.sampling import (
    FinishReason,
    RequestTimes,
    SamplingParams,
    SpeculationParams,
    SpeculationStats,
    StepBreakdown,
    Usage,
)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What a scheduler is asked for, with every default applied.

    ``committed_token_ids`` were generated and streamed before; they do not come again. Only
    verifiers of that ``arithmetic`` may go on, if it has a value. ``tenant`` says whose share of
    the server the request takes; those without one share a single one.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    speculation: SpeculationParams = field(default_factory=SpeculationParams)
    cache_salt: str = ""
    priority: int = 0
    use_prefix_cache: bool = True
    committed_token_ids: tuple[int, ...] = ()
    arithmetic: str = ""
    request_class: RequestClass = RequestClass.INTERACTIVE
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """Newly committed tokens; ``num_accepted`` of them came from accepted candidates.

    ``arithmetic`` is that of the verifier, in the first chunk of a stream only. ``logprobs`` has
    one entry for each token, or none; ``prompt_logprobs``, in the first chunk only, one for each
    token of the prompt but the first.
    """

    token_ids: tuple[int, ...]
    num_accepted: int = 0
    arithmetic: str = ""
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class TokensComplete:
    """The end of a request's stream."""

    finish_reason: FinishReason
    stop_token_id: int | None
    usage: Usage
    speculation: SpeculationStats
    steps: StepBreakdown
    # None if who ended the stream did not run the request
    times: RequestTimes | None = None


StreamEvent = TokenChunk | TokensComplete
"""A stream has any number of chunks, then exactly one end."""
