"""A gRPC proxy that spoils calls: put it on any edge between two services."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import grpc
from grpc import aio

from dspark import rpc
from harness.socket_server import SocketServer


class FaultKind(Enum):
    """What happens to a call."""

    PASS = "nothing"
    DELAY = "it starts late"
    DROP_REQUEST = "it never arrives; the caller waits for its deadline"
    DROP_REPLY = "it is served; its reply never arrives"
    REFUSE = "it fails at once with UNAVAILABLE"
    CUT = "it is served; then the caller sees UNAVAILABLE"
    DUPLICATE = "it is served twice; the caller gets the second reply"
    REORDER = "it arrives after the next call of the method was served, its caller long gone"
    CANCEL = "the proxy cancels it on its way"


@dataclass(frozen=True)
class Fault:
    """A fault for one call of a method whose name ends with ``method``."""

    kind: FaultKind
    method: str = ""
    seconds: float = 0.0


@dataclass
class FaultProxy(SocketServer):
    """Forwards every method to ``upstream`` byte by byte; each call meets the next matching fault.

    ``always`` is a fault for every call that meets none of the scripted ones.
    """

    upstream: str
    faults: deque[Fault] = field(default_factory=deque)
    always: Fault | None = None
    calls: list[tuple[str, FaultKind]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Calls that arrive late, and how many of them did.
        self._late: set[asyncio.Task[None]] = set()
        self._served: dict[str, asyncio.Event] = {}
        self.num_late = 0

    async def listen(self, address: str) -> int:
        self._channel = rpc.channel(self.upstream)
        self._server = aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Handler(self),))
        port = self._server.add_insecure_port(address)
        await self._server.start()
        return port

    async def stop(self) -> None:
        for task in self._late:
            task.cancel()
        await self._server.stop(0)
        await self._channel.close()

    async def serve(
        self, method: str, requests: AsyncIterator[bytes], context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bytes]:
        """One call; each turn of a Stream method meets a fault of its own."""
        name = method.rsplit("/", 1)[-1]
        if not name.startswith("Stream"):
            sent = [message async for message in requests]
            async for message in self._serve_turn(method, name, sent, context):
                yield message
            return
        async for request in requests:
            turn = self._serve_turn(method, name.removeprefix("Stream"), [request], context)
            async for message in turn:
                yield message

    async def _serve_turn(
        self,
        method: str,
        name: str,
        sent: list[bytes],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[bytes]:
        fault = self._next_fault(f"/{name}")
        self.calls.append((name, fault.kind))
        await self._before(fault, method, sent, context)
        try:
            if fault.kind is FaultKind.DUPLICATE:
                _ = [message async for message in self._forward(method, sent)]
            async for message in self._forward(method, sent):
                if fault.kind not in (FaultKind.DROP_REPLY, FaultKind.CUT, FaultKind.CANCEL):
                    yield message
                if fault.kind is FaultKind.CANCEL:
                    await context.abort(grpc.StatusCode.CANCELLED, "scripted cancel")
        except aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", error.trailing_metadata())
        self._served.pop(method, asyncio.Event()).set()
        if fault.kind is FaultKind.DROP_REPLY:
            await asyncio.Event().wait()
        if fault.kind is FaultKind.CUT:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted cut")

    async def _before(
        self,
        fault: Fault,
        method: str,
        sent: list[bytes],
        context: aio.ServicerContext[Any, Any],
    ) -> None:
        if fault.kind is FaultKind.DELAY:
            await asyncio.sleep(fault.seconds)
        elif fault.kind is FaultKind.DROP_REQUEST:
            await asyncio.Event().wait()
        elif fault.kind is FaultKind.REFUSE:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted refusal")
        elif fault.kind is FaultKind.REORDER:
            self._late.add(asyncio.create_task(self._deliver_late(method, sent)))
            await asyncio.Event().wait()

    async def _deliver_late(self, method: str, sent: list[bytes]) -> None:
        await self._served.setdefault(method, asyncio.Event()).wait()
        with contextlib.suppress(aio.AioRpcError):
            _ = [message async for message in self._forward(method, sent)]
        self.num_late += 1

    def _forward(self, method: str, sent: list[bytes]) -> AsyncIterator[bytes]:
        call = self._channel.stream_stream(method)(iter(sent))
        return call.__aiter__()

    def _next_fault(self, method: str) -> Fault:
        for fault in self.faults:
            if method.endswith(fault.method):
                self.faults.remove(fault)
                return fault
        if self.always is not None and method.endswith(self.always.method):
            return self.always
        return Fault(FaultKind.PASS)


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = handler_call_details.method

        async def behaviour(
            requests: AsyncIterator[bytes], context: aio.ServicerContext[Any, Any]
        ) -> AsyncIterator[bytes]:
            async for message in self._proxy.serve(method, requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(behaviour)
