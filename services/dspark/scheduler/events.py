"""What a request's stream carries: any number of chunks, then exactly one end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from dspark.errors import DSparkError
from dspark.sampling import FinishReason, SpeculationStats, StepBreakdown, Usage


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """Newly committed tokens; ``num_accepted`` of them came from accepted candidates."""

    token_ids: tuple[int, ...]
    num_accepted: int


@dataclass(frozen=True, slots=True)
class TokensComplete:
    """The end of a request."""

    finish_reason: FinishReason
    stop_token_id: int | None
    usage: Usage
    speculation: SpeculationStats
    steps: StepBreakdown


StreamEvent = TokenChunk | TokensComplete


class TokenStream:
    """One request's events; iterate it once. Ends after TokensComplete or raises the failure."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[StreamEvent | DSparkError] = asyncio.Queue()

    def push(self, event: StreamEvent) -> None:
        self._events.put_nowait(event)

    def fail(self, error: DSparkError) -> None:
        self._events.put_nowait(error)

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while True:
            event = await self._events.get()
            if isinstance(event, DSparkError):
                raise event
            yield event
            if isinstance(event, TokensComplete):
                return
