"""A scheduler that plays scripts: a real SchedulerService on a socket, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpc import aio

from dspark import rpc
from dspark.errors import DSparkError
from dspark.v1 import sampling_pb2, scheduler_service_pb2_grpc
from dspark.v1 import scheduler_service_pb2 as pb

SERVICE_NAME = "dspark.v1.SchedulerService"
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


@dataclass
class FakeScheduler:
    """Start it, point a gateway at ``target``, read what it saw.

    ``script`` is a script for all requests, or a function from the request to one.
    """

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
    num_sent: int = 0
    target: str = ""

    async def start(self, address: str = "127.0.0.1:0") -> FakeScheduler:
        self._server = rpc.Server([SERVICE_NAME])
        scheduler_service_pb2_grpc.add_SchedulerServiceServicer_to_server(
            _Servicer(self), self._server.grpc
        )
        port = await self._server.start(address)
        self.target = address if address.startswith("unix:") else f"127.0.0.1:{port}"
        await self._server.set_ready(True)
        return self

    async def stop(self) -> None:
        await self._server.stop(0)

    async def __aenter__(self) -> FakeScheduler:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

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
        self._fake.requests.append(request)
        script = self._fake.script
        playing = _play(script(request) if callable(script) else script, request, self._fake)
        try:
            async for event in playing:
                yield event
                self._fake.num_sent += 1
            self._fake.finished.append(request.request_id)
        except (asyncio.CancelledError, GeneratorExit):
            self._fake.cancelled.append(request.request_id)
            raise


async def _play(
    script: Script, request: pb.SchedulerServiceGenerateRequest, fake: FakeScheduler
) -> AsyncIterator[pb.SchedulerServiceGenerateResponse]:
    await asyncio.sleep(script.start_delay_s)
    ends = set(request.sampling.stop_token_ids)
    if not request.sampling.ignore_eos:
        ends |= set(fake.eos_token_ids)
    num_tokens = num_accepted = num_rounds = 0
    while True:
        for run in script.runs:
            kept = _cut(list(run), ends, request.sampling.max_tokens - num_tokens)
            num_tokens, num_rounds = num_tokens + len(kept), num_rounds + 1
            num_accepted += len(kept) - 1
            chunk = pb.TokenChunk(token_ids=kept, num_accepted=len(kept) - 1)
            yield pb.SchedulerServiceGenerateResponse(chunk=chunk)
            done = kept[-1] in ends or num_tokens == request.sampling.max_tokens
            if done:
                yield _complete(request, kept[-1], ends, num_tokens, num_rounds, num_accepted)
                return
            await asyncio.sleep(script.delay_s)
        if not script.repeat:
            break
    if script.error is not None:
        raise script.error
    if script.hang:
        await asyncio.Event().wait()
    end = _complete(request, -1, ends, num_tokens, num_rounds, num_accepted)
    if script.finish_reason is not None:
        end.complete.finish_reason = script.finish_reason
    yield end


def _cut(run: list[int], ends: set[int], room: int) -> list[int]:
    for count, token_id in enumerate(run, start=1):
        if token_id in ends or count == room:
            return run[:count]
    return run


def _complete(
    request: pb.SchedulerServiceGenerateRequest,
    last: int,
    ends: set[int],
    num_tokens: int,
    num_rounds: int,
    num_accepted: int,
) -> pb.SchedulerServiceGenerateResponse:
    stopped = last in ends
    complete = pb.TokensComplete(
        finish_reason=STOP if stopped else LENGTH,
        stop_token_id=last if stopped else None,
        usage=sampling_pb2.Usage(
            prompt_tokens=len(request.prompt_token_ids), completion_tokens=num_tokens
        ),
        speculation=_stats(num_rounds, 2 * num_accepted, num_accepted),
        steps=sampling_pb2.StepBreakdown(
            propose_ms=0.5, verify_ms=4.0, forward_ms=3.0, overhead_ms=1.5
        ),
    )
    return pb.SchedulerServiceGenerateResponse(complete=complete)


def _stats(rounds: int, drafted: int, accepted: int) -> sampling_pb2.SpeculationStats:
    source = sampling_pb2.SourceStats(name="suffix", drafted=drafted, accepted=accepted)
    return sampling_pb2.SpeculationStats(
        rounds=rounds, drafted=drafted, accepted=accepted, sources=[source]
    )
