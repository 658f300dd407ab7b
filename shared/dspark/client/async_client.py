"""The client, async."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
from grpc import aio

from dspark import rpc
from dspark.client import wire
from dspark.client.collector import Collector
from dspark.client.options import GenerateOptions, Prompt
from dspark.client.results import Chunk, Completion, Model, Started
from dspark.client.target import checked_target
from dspark.client.timeout import checked_timeout
from dspark.errors import DeadlineExceeded, DSparkError, InternalError
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1.inference_service_pb2_grpc import InferenceServiceStub

DEFAULT_TARGET = "127.0.0.1:50051"
SERVICE = "dspark.v1.InferenceService"


def _translated(error: aio.AioRpcError) -> DSparkError:
    translated = rpc.from_rpc_error(error, "gateway")
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(translated.message)
    return translated


class AsyncStream(AsyncIterator[Chunk]):
    """The chunks of one completion; leaving it (``async with``, ``aclose``) cancels the request.

    ``started`` is set once the first event arrived, ``completion`` once the iteration has ended by
    itself.
    """

    def __init__(self, call: aio.UnaryStreamCall[Any, pb.GenerateResponse]) -> None:
        self._call = call
        self._events = call.__aiter__()
        self._loop = asyncio.get_running_loop()
        self._collector = Collector(time.perf_counter())
        self._completion: Completion | None = None

    @property
    def started(self) -> Started | None:
        return self._collector.started

    @property
    def completion(self) -> Completion:
        """The whole completion; raises InternalError before the iteration has ended by itself."""
        if self._completion is None:
            raise InternalError("the stream has not finished")
        return self._completion

    async def __anext__(self) -> Chunk:
        while (event := await self._next_event()) is not None:
            now = time.perf_counter()
            match event.WhichOneof("event"):
                case "started":
                    self._collector.add_started(wire.started_from_proto(event.started))
                case "chunk":
                    chunk = wire.chunk_from_proto(event.chunk)
                    self._collector.add_chunk(chunk, now)
                    return chunk
                case "complete":
                    finished = wire.finished_from_proto(event.complete)
                    self._completion = self._collector.finish(finished, now)
        if self._completion is None and not self._call.cancelled():
            raise InternalError("the stream ended without a finish reason")
        raise StopAsyncIteration

    async def _next_event(self) -> pb.GenerateResponse | None:
        try:
            return await anext(self._events, None)
        except aio.AioRpcError as error:
            raise _translated(error) from error
        except asyncio.CancelledError:
            if self._is_own_cancel():
                return None
            raise

    def _is_own_cancel(self) -> bool:
        task = asyncio.current_task()
        return self._call.cancelled() and task is not None and not task.cancelling()

    def __del__(self) -> None:
        # A dropped iterator must cancel too; the call may only be touched on its own thread, and
        # needs no cancelling once its loop is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call.cancel)

    async def aclose(self) -> None:
        """Cancel the request unless it has finished."""
        self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class AsyncClient:
    """A connection to a DSpark gateway at ``host:port`` or ``unix:/path``.

    ::

        async with AsyncClient() as client:
            completion = await client.generate("Once", max_tokens=32)
            async with client.stream([{"role": "user", "content": "Hi"}]) as stream:
                async for chunk in stream:
                    print(chunk.text, end="")

    Failed calls raise a ``dspark.errors`` class. Concurrent calls share the connection.
    """

    def __init__(self, target: str = DEFAULT_TARGET) -> None:
        self.target = checked_target(target)
        self._open_channel: aio.Channel | None = None

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> AsyncStream:
        """Start a completion and iterate over its chunks."""
        request = wire.request_to_proto(prompt, options)
        timeout = checked_timeout(options.get("timeout"))
        return AsyncStream(self._stub().Generate(request, timeout=timeout))

    async def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Completion:
        """Run a completion to its end; cancelling the task cancels the request."""
        async with self.stream(prompt, **options) as stream:
            async for _ in stream:
                pass
            return stream.completion

    async def models(self, timeout: float | None = None) -> tuple[Model, ...]:
        """The served models."""
        timeout = checked_timeout(timeout)
        try:
            response = await self._stub().ListModels(pb.ListModelsRequest(), timeout=timeout)
        except aio.AioRpcError as error:
            raise _translated(error) from error
        return wire.models_from_proto(response)

    async def is_ready(self, timeout: float = 1.0) -> bool:
        """Whether the gateway answers and serves requests now."""
        return await rpc.is_ready(self._channel(), SERVICE, timeout)

    async def close(self) -> None:
        """Cancel what runs and close the connection."""
        if self._open_channel is not None:
            await self._open_channel.close(None)
            self._open_channel = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _channel(self) -> aio.Channel:
        # A channel belongs to the loop that runs when it is made, so it is made at the first call.
        if self._open_channel is None:
            self._open_channel = rpc.channel(self.target)
        return self._open_channel

    def _stub(self) -> Any:
        return InferenceServiceStub(self._channel())
