"""The scheduler's surface as plain values (wire form: scheduler_service.proto)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from dspark.sampling import (
    FinishReason,
    SamplingParams,
    SpeculationParams,
    SpeculationStats,
    StepBreakdown,
    Usage,
)

SCHEDULER = "scheduler"  # its name in errors


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request with every default applied and every limit checked.

    ``committed_token_ids`` were generated and streamed before; they do not come again.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    stop_strings: tuple[str, ...] = ()
    speculation: SpeculationParams = field(default_factory=SpeculationParams)
    cache_salt: str = ""
    priority: int = 0
    use_prefix_cache: bool = True
    committed_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenRun:
    """Newly committed tokens, ``num_accepted`` of them from accepted candidates."""

    token_ids: tuple[int, ...]
    num_accepted: int = 0


@dataclass(frozen=True, slots=True)
class TokensComplete:
    """The end of a token stream."""

    finish_reason: FinishReason
    stop_token_id: int | None
    usage: Usage
    speculation: SpeculationStats
    steps: StepBreakdown


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """The model behind the scheduler and its limits."""

    model_id: str
    vocab_size: int
    max_model_len: int
    max_pool_tokens: int
    eos_token_ids: frozenset[int]
    sources: tuple[str, ...]
    exactness: str
    policy: str

    @property
    def max_request_tokens(self) -> int:
        """The largest number of prompt and generated tokens of one request."""
        return min(self.max_model_len, self.max_pool_tokens or self.max_model_len)


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """Counts since the scheduler's start, and its state now."""

    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_blocks: int
    num_preemptions: int
    prompt_tokens: int
    cached_tokens: int
    speculation: SpeculationStats


class TokenSource(Protocol):
    """Runs requests, given as token ids, to their end."""

    def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[TokenRun | TokensComplete, None]:
        """Runs, then exactly one TokensComplete; closing the iterator aborts the request."""
        ...

    async def stop(self, request_id: str) -> None:
        """End a request whose text is complete: its runs then end with TokensComplete."""
        ...

    async def info(self) -> SchedulerInfo: ...

    async def status(self) -> SchedulerStatus: ...
