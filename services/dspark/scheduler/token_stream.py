"""The stream of one request, from the steps that commit its tokens to the call that sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dspark.errors import DSparkError
from dspark.generation import StreamEvent, TokensComplete


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
