"""Requests and replies in turn on one open gRPC stream: cheaper than a call for each.

A call pays for its metadata and its status each time, in several hand-overs between threads; on an
open stream only the two messages travel. The price is that deadline, status and retry are the
caller's business: ``Exchange`` gives each turn a deadline, and a stream that failed is opened anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from grpc import aio

from dspark import rpc
from dspark.errors import BackendUnavailable

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Exchange(Generic[Request, Reply]):
    """One caller's stream to ``service``; turns are taken one at a time."""

    def __init__(self, open_stream: Callable[[], Any], service: str) -> None:
        """``open_stream`` starts a bidirectional call, as a stub's method does."""
        self._open_stream = open_stream
        self._service = service
        self._stream: Any = None
        self._turn = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self._turn.locked()

    async def call(self, request: Request, timeout_s: float) -> Reply:
        """The reply; raises the service's DSparkError, or BackendUnavailable.

        After a failure nothing is known of the request: it may have been served.
        """
        async with self._turn:
            stream, self._stream = self._stream, None
            if stream is None or stream.done():
                stream = self._open_stream()
            try:
                async with asyncio.timeout(timeout_s):
                    reply = await self._take_turn(stream, request)
            except TimeoutError:
                stream.cancel()
                raise BackendUnavailable(
                    self._service, f"DEADLINE_EXCEEDED: no reply within {timeout_s:g} s"
                ) from None
            except BaseException:
                stream.cancel()
                raise
            self._stream = stream
            return reply

    async def _take_turn(self, stream: Any, request: Request) -> Reply:
        try:
            await stream.write(request)
            reply: Reply = await stream.read()
        except aio.AioRpcError as error:
            raise rpc.from_rpc_error(error, self._service) from error
        except asyncio.InvalidStateError as error:
            raise BackendUnavailable(self._service, "UNAVAILABLE: the stream ended") from error
        if reply is aio.EOF:  # type: ignore[attr-defined]
            raise BackendUnavailable(self._service, "UNAVAILABLE: the stream ended")
        return reply

    def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
