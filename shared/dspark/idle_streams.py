"""Lets a server end the streams on which nothing is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

Request = TypeVar("Request")

_END = object()


class IdleStreams:
    """Streams that wait for their caller's next message must not delay a shutdown."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[Any]] = set()
        self._is_ended = False

    async def messages(self, requests: AsyncIterator[Request]) -> AsyncIterator[Request]:
        """The messages of ``requests``, until it ends or ``end`` is called."""
        while not self._is_ended:
            message = asyncio.ensure_future(_next(requests))
            self._waiting.add(message)
            try:
                received = await message
            except asyncio.CancelledError:
                if self._is_ended and message.cancelled():
                    return
                raise
            finally:
                self._waiting.discard(message)
            if received is _END:
                return
            yield received

    def end(self) -> None:
        self._is_ended = True
        for message in self._waiting:
            message.cancel()


async def _next(requests: AsyncIterator[Any]) -> Any:
    return await anext(requests, _END)
