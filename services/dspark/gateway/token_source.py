"""Where the tokens of requests come from: the scheduler as the gateway sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from dspark.gateway.parsing.answer_style import AnswerStyle
from dspark.gateway.text_assembly import TextOptions
from dspark.generation import RequestSpec, StreamEvent
from dspark.sampling import SpeculationStats

SCHEDULER = "scheduler"  # its name in errors


@dataclass(frozen=True, slots=True)
class GenerationRequest(RequestSpec):
    """A request with every limit checked, and the stop strings that end its text here.

    ``answer`` says how the text is told apart; None means that all of it is content. ``beside``
    names the request that computes the same prompt: where that runs, its K/V is.
    """

    stop_strings: tuple[str, ...] = ()
    text: TextOptions = field(default_factory=TextOptions)
    answer: AnswerStyle | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """The model behind the scheduler and its limits."""

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
    # tokens of a block; 0 before a verifier has answered
    block_size: int
    num_preemptions: int
    prompt_tokens: int
    cached_tokens: int
    # accepted nodes at depth 1, 2 and so on; the last entry has all that are deeper
    accepted_by_position: tuple[int, ...]
    speculation: SpeculationStats


class TokenSource(Protocol):
    """Runs requests, given as token ids, to their end."""

    def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        """The request's stream; closing the iterator aborts the request."""
        ...

    async def stop(self, request_id: str) -> None:
        """End a request whose text is complete: its stream then ends with TokensComplete."""
        ...

    async def info(self) -> SchedulerInfo: ...

    async def status(self) -> SchedulerStatus: ...
