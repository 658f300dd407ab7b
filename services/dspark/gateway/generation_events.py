"""What happens to one request, as both fronts tell it to the client."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.gateway.text_assembly import TextChunk
from dspark.sampling import FinishReason, SpeculationStats, StepBreakdown, Usage


@dataclass(frozen=True, slots=True)
class Started:
    """The request is valid and on its way; ``seed`` is the one in use."""

    request_id: str
    prompt_tokens: int
    seed: int
    prompt_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """The end; ``stop_reason`` is the stop string or stop token, None for any other end.

    ``speculation`` and ``steps`` are None when a stop string ended the request and the scheduler,
    which counts them, was lost just then. ``calls_tools`` says that the answer ended by itself,
    with calls of tools; ``reasoning_tokens`` is None where reasoning is not told from text.
    """

    finish_reason: FinishReason
    stop_reason: str | int | None
    usage: Usage
    speculation: SpeculationStats | None
    steps: StepBreakdown | None
    calls_tools: bool = False
    reasoning_tokens: int | None = None


Event = Started | TextChunk | Completed
