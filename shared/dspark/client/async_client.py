"""The client, async."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from grpc import aio

from dspark import rpc
from dspark.client import wire
from dspark.client.access import call_metadata, tls_of
from dspark.client.choices import ChoiceCollector, checked_n
from dspark.client.collector import Collector
from dspark.client.connection import Connection, is_task_cancelled
from dspark.client.options import ChatOptions, GenerateOptions, Prompt, with_whole_calls
from dspark.client.results import Chunk, Completion, Model, Started, Status, Tokens
from dspark.client.target import checked_target
from dspark.client.timeout import checked_timeout
from dspark.errors import InternalError
from dspark.telemetry.current import callers_metadata
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1.inference_service_pb2_grpc import InferenceServiceStub

DEFAULT_TARGET = "127.0.0.1:50051"
SERVICE = "dspark.v1.InferenceService"


class AsyncStream(AsyncIterator[Chunk]):
    """The chunks of one completion; leaving it (``async with``, ``aclose``) cancels the request.

    ``started`` is set once the first event arrived, ``completion`` once the iteration has ended by
    itself.
    """

    def __init__(
        self, call: aio.UnaryStreamCall[Any, pb.GenerateResponse], connection: Connection
    ) -> None:
        self._call = call
        self._connection = connection
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
            with self._connection.translated():
                return await anext(self._events, None)
        except asyncio.CancelledError:
            if self._call.cancelled() and not is_task_cancelled():
                return None
            raise

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
    """A connection to a DSpark gateway at ``host:port``, ``grpcs://host:port`` or ``unix:/path``.

    ::

        async with AsyncClient() as client:
            completion = await client.generate("Once", max_tokens=32)
            async with client.stream([{"role": "user", "content": "Hi"}]) as stream:
                async for chunk in stream:
                    print(chunk.text, end="")

    Failed calls raise a ``dspark.errors`` class, calls after ``close`` ClientClosed. Concurrent
    calls share the connection; it serves one event loop at a time. ``api_key`` is that of the
    variable DSPARK_API_KEY if None. ``tls``: True, or the files to use.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        tls: TlsFiles | bool | None = None,
    ) -> None:
        self.target = checked_target(target)
        self._metadata = call_metadata(api_key)
        self._connection = Connection(self.target, tls_of(target, tls))

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> AsyncStream:
        """Start a completion and iterate over its chunks."""
        call = self._start(wire.request_to_proto(prompt, options), options.get("timeout"))
        return AsyncStream(call, self._connection)

    async def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Completion:
        """Run a completion to its end; cancelling the task cancels the request."""
        async with self.stream(prompt, **with_whole_calls(options)) as stream:
            async for _ in stream:
                pass
            return stream.completion

    async def generate_choices(
        self, prompt: Prompt, n: int, **options: Unpack[GenerateOptions]
    ) -> tuple[Completion, ...]:
        """``n`` completions of one prompt, each with a seed of its own; the first has the given."""
        collector = ChoiceCollector(checked_n(n), time.perf_counter())
        call = self._start(wire.request_to_proto(prompt, options, n), options.get("timeout"))
        try:
            with self._connection.translated():
                async for event in call:
                    collector.add(event, time.perf_counter())
        finally:
            call.cancel()
        return collector.completions()

    async def tokenize(
        self,
        prompt: Prompt,
        *,
        add_special_tokens: bool = False,
        return_spellings: bool = False,
        timeout: float | None = None,
        **layout: Unpack[ChatOptions],
    ) -> Tokens:
        """The tokens of a text or of chat messages, as ``generate`` counts them."""
        request = wire.tokenize_request(
            prompt,
            layout,
            add_special_tokens=add_special_tokens,
            return_spellings=return_spellings,
        )
        return wire.tokens_from_proto(await self._unary("Tokenize", request, timeout))

    async def detokenize(self, token_ids: Sequence[int], timeout: float | None = None) -> str:
        """The text of tokens, in which special tokens are text too."""
        request = wire.detokenize_request(token_ids)
        text: str = (await self._unary("Detokenize", request, timeout)).text
        return text

    async def status(self, timeout: float | None = None) -> Status:
        """Whether requests are served, and how much runs and waits."""
        reply = await self._unary("GetStatus", pb.GetStatusRequest(), timeout)
        return wire.status_from_proto(reply)

    async def models(self, timeout: float | None = None) -> tuple[Model, ...]:
        """The served models."""
        reply = await self._unary("ListModels", pb.ListModelsRequest(), timeout)
        return wire.models_from_proto(reply)

    async def is_ready(self, timeout: float | None = 1.0) -> bool:
        """Whether the gateway answers and serves requests now."""
        timeout = checked_timeout(timeout)
        with self._connection.translated():
            return await rpc.is_ready(self._connection.channel(), SERVICE, timeout)

    async def close(self) -> None:
        """Cancel what runs and close the connection, for good."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _start(self, request: pb.GenerateRequest, timeout: float | None) -> Any:
        metadata = (*self._metadata, *(callers_metadata() or ()))
        timeout = checked_timeout(timeout)
        return self._stub().Generate(request, timeout=timeout, metadata=metadata)

    async def _unary(self, method: str, request: Any, timeout: float | None) -> Any:
        timeout = checked_timeout(timeout)
        with self._connection.translated():
            call = getattr(self._stub(), method)
            return await call(request, timeout=timeout, metadata=self._metadata)

    def _stub(self) -> Any:
        return InferenceServiceStub(self._connection.channel())
