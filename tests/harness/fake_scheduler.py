"""A scheduler that plays scripts: a real SchedulerService on a socket, without a model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grpc import aio

from dspark.errors import DSparkError, UnknownRequest
from dspark.logprobs import TokenLogprobs
from dspark.v1 import sampling_pb2, scheduler_service_pb2_grpc
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.wire.logprobs import logprobs_to_proto
from harness.socket_server import FakeService

_Event = pb.SchedulerServiceGenerateResponse
STOP = sampling_pb2.FINISH_REASON_STOP
LENGTH = sampling_pb2.FINISH_REASON_LENGTH
ERROR = sampling_pb2.FINISH_REASON_ERROR


@dataclass(frozen=True)
class Script:
    """What one request gets: runs of tokens, then an end.

    ``runs`` are cut at the request's max_tokens, stop tokens and end-of-sequence tokens, as a
    scheduler does; ``repeat`` plays them again and again. ``error`` is raised after the runs,
    ``hang`` waits forever there.
    """

    runs: Sequence[Sequence[int]] = ()
    repeat: bool = False
    delay_s: float = 0.0
    start_delay_s: float = 0.0
    error: DSparkError | None = None
    hang: bool = False
    finish_reason: sampling_pb2.FinishReason | None = None


def runs_of(text: str | bytes, size: int = 1) -> list[list[int]]:
    """Byte tokens of a text in runs of ``size``."""
    data = text.encode() if isinstance(text, str) else text
    return [list(data[i : i + size]) for i in range(0, len(data), size)]


def fake_logprobs(token_ids: Sequence[int], num_top: int) -> list[TokenLogprobs]:
    """Values by which a token is known again; the likeliest ones are those that count up from it,
    the last of which cannot be drawn.
    """
    told = []
    for token_id in token_ids:
        top = tuple(range(token_id, token_id + num_top))
        values = tuple(-token_id / 64 - place for place in range(num_top))
        if num_top > 1:
            values = (*values[:-1], -math.inf)
        told.append(TokenLogprobs(-token_id / 64, 1, top, values))
    return told


@dataclass
class FakeScheduler(FakeService):
    """Start it, point a gateway at ``target``, read what it saw.

    ``script`` is a script for all requests, or a function from the request to one.
    """

    name: ClassVar[str] = "dspark.v1.SchedulerService"
    script: Script | Callable[[pb.SchedulerServiceGenerateRequest], Script] = field(
        default_factory=lambda: Script(runs_of("Hello, world."))
    )
    vocab_size: int = 258
    eos_token_ids: tuple[int, ...] = (256,)
    max_model_len: int = 128
    sources: tuple[str, ...] = ("recycle", "suffix", "retrieval")
    info_error: DSparkError | None = None
    requests: list[pb.SchedulerServiceGenerateRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    stop_error: DSparkError | None = None
    live: dict[str, asyncio.Event] = field(default_factory=dict)
    num_sent: int = 0

    def add_to(self, server: aio.Server) -> None:
        scheduler_service_pb2_grpc.add_SchedulerServiceServicer_to_server(_Servicer(self), server)

    async def wait_cancelled(self, timeout_s: float = 1.0, count: int = 1) -> bool:
        """Whether so many calls were cancelled within the time."""
        for _ in range(int(timeout_s / 0.01)):
            if len(self.cancelled) >= count:
                return True
            await asyncio.sleep(0.01)
        return len(self.cancelled) >= count


class _Servicer(scheduler_service_pb2_grpc.SchedulerServiceServicer):
    def __init__(self, fake: FakeScheduler) -> None:
        self._fake = fake

    async def GetSchedulerInfo(
        self, request: pb.GetSchedulerInfoRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetSchedulerInfoResponse:
        if self._fake.info_error is not None:
            raise self._fake.info_error
        return pb.GetSchedulerInfoResponse(
            model_id="fake",
            vocab_size=self._fake.vocab_size,
            max_model_len=self._fake.max_model_len,
            max_pool_tokens=self._fake.max_model_len,
            eos_token_ids=self._fake.eos_token_ids,
            sources=self._fake.sources,
            exactness="strict",
            policy="fixed",
        )

    async def GetSchedulerStatus(
        self, request: pb.GetSchedulerStatusRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetSchedulerStatusResponse:
        return pb.GetSchedulerStatusResponse(
            num_running=2,
            num_waiting=3,
            num_free_blocks=75,
            num_blocks=100,
            speculation=_stats(rounds=10, drafted=40, accepted=20),
        )

    async def Generate(
        self, request: pb.SchedulerServiceGenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
        fake = self._fake
        fake.requests.append(request)
        script = fake.script(request) if callable(fake.script) else fake.script
        stop = fake.live[request.request_id] = asyncio.Event()
        player = _Player(script, request, fake)
        try:
            async for event in _until(stop, player.events()):
                if event.HasField("complete"):
                    fake.finished.append(request.request_id)
                yield event
                fake.num_sent += 1
            if stop.is_set():
                fake.finished.append(request.request_id)
                yield player.complete(STOP)
        except (asyncio.CancelledError, GeneratorExit):
            # Callers may leave after the end without waiting for the call's status.
            if request.request_id not in fake.finished:
                fake.cancelled.append(request.request_id)
            raise
        finally:
            del fake.live[request.request_id]

    async def StopGeneration(
        self, request: pb.StopGenerationRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.StopGenerationResponse:
        if self._fake.stop_error is not None:
            raise self._fake.stop_error
        if request.request_id not in self._fake.live:
            raise UnknownRequest(request.request_id)
        self._fake.live[request.request_id].set()
        self._fake.stopped.append(request.request_id)
        return pb.StopGenerationResponse()


async def _until(stop: asyncio.Event, events: AsyncIterator[_Event]) -> AsyncIterator[_Event]:
    """The events up to the moment when ``stop`` is set."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        while True:
            step = asyncio.ensure_future(anext(events, None))
            try:
                await asyncio.wait({step, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not step.done():
                    step.cancel()
            if stop.is_set() or (event := await step) is None:
                return
            yield event
    finally:
        stopped.cancel()


class _Player:
    """Plays one script for one request."""

    def __init__(
        self, script: Script, request: pb.SchedulerServiceGenerateRequest, fake: FakeScheduler
    ) -> None:
        self._script = script
        self._request = request
        self._ends = set(request.sampling.stop_token_ids)
        if not request.sampling.ignore_eos:
            self._ends |= set(fake.eos_token_ids)
        self._num_tokens = self._num_accepted = self._num_rounds = 0

    async def events(self) -> AsyncIterator[_Event]:
        script, max_tokens = self._script, self._request.sampling.max_tokens
        await asyncio.sleep(script.start_delay_s)
        while True:
            for run in script.runs:
                kept = _cut(list(run), self._ends, max_tokens - self._num_tokens)
                yield self._chunk(kept)
                if kept[-1] in self._ends:
                    yield self.complete(STOP, kept[-1])
                    return
                if self._num_tokens == max_tokens:
                    yield self.complete(LENGTH)
                    return
                await asyncio.sleep(script.delay_s)
            if not script.repeat:
                break
        if script.error is not None:
            raise script.error
        if script.hang:
            await asyncio.Event().wait()
        yield self.complete(script.finish_reason or LENGTH)

    def _chunk(self, token_ids: list[int]) -> _Event:
        num_accepted = len(token_ids) - 1
        self._num_tokens += len(token_ids)
        self._num_accepted += num_accepted
        self._num_rounds += 1
        chunk = pb.TokenChunk(token_ids=token_ids, num_accepted=num_accepted)
        asked = self._request.sampling
        if asked.HasField("logprobs"):
            told = fake_logprobs(token_ids, asked.logprobs)
            chunk.logprobs.CopyFrom(logprobs_to_proto(told))
        if asked.HasField("prompt_logprobs") and self._num_rounds == 1:
            told = fake_logprobs(self._request.prompt_token_ids[1:], asked.prompt_logprobs)
            chunk.prompt_logprobs.CopyFrom(logprobs_to_proto(told))
        return _Event(chunk=chunk)

    def complete(
        self, reason: sampling_pb2.FinishReason, stop_token_id: int | None = None
    ) -> _Event:
        return _Event(
            complete=pb.TokensComplete(
                finish_reason=reason,
                stop_token_id=stop_token_id,
                usage=sampling_pb2.Usage(
                    prompt_tokens=len(self._request.prompt_token_ids),
                    completion_tokens=self._num_tokens,
                ),
                speculation=_stats(self._num_rounds, 2 * self._num_accepted, self._num_accepted),
                steps=sampling_pb2.StepBreakdown(
                    propose_ms=0.5, verify_ms=4.0, forward_ms=3.0, overhead_ms=1.5, ahead_ms=0.25
                ),
            )
        )


def _cut(run: list[int], ends: set[int], room: int) -> list[int]:
    for count, token_id in enumerate(run, start=1):
        if token_id in ends or count == room:
            return run[:count]
    return run


def _stats(rounds: int, drafted: int, accepted: int) -> sampling_pb2.SpeculationStats:
    source = sampling_pb2.SourceStats(name="suffix", drafted=drafted, accepted=accepted)
    return sampling_pb2.SpeculationStats(
        rounds=rounds, drafted=drafted, accepted=accepted, sources=[source]
    )
