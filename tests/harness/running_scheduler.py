"""A real scheduler on a real socket, and a client that collects what it streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dspark import rpc
from dspark.generation import StreamEvent, TokenChunk
from dspark.logprobs import TokenLogprobs
from dspark.sampling import (
    FinishReason,
    SamplingParams,
    SpeculationParams,
    SpeculationStats,
    StepBreakdown,
    Usage,
)
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.server import SchedulerServer
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc
from dspark.wire.generation import event_from_proto
from dspark.wire.sampling import sampling_to_proto, speculation_to_proto
from harness.waiting import until

SERVICE = "dspark.v1.SchedulerService"


@dataclass
class Streamed:
    """What one stream brought."""

    token_ids: list[int] = field(default_factory=list)
    chunk_sizes: list[int] = field(default_factory=list)
    num_accepted: int = 0
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    usage: Usage = field(default_factory=Usage)
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    steps: StepBreakdown = field(default_factory=StepBreakdown)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)


def make_request(
    request_id: str,
    prompt: Sequence[int],
    sampling: SamplingParams,
    speculation: SpeculationParams | None = None,
    **fields: Any,
) -> pb.SchedulerServiceGenerateRequest:
    """The message for one request; ``fields`` are further fields of it."""
    return pb.SchedulerServiceGenerateRequest(
        request_id=request_id,
        prompt_token_ids=prompt,
        sampling=sampling_to_proto(sampling),
        speculation=speculation_to_proto(speculation or SpeculationParams()),
        **fields,
    )


class SchedulerClient:
    """Calls a scheduler as a gateway does; failures are raised as DSparkErrors."""

    def __init__(self, target: str) -> None:
        self.channel = rpc.channel(target)
        self.stub = pb_grpc.SchedulerServiceStub(self.channel)

    async def generate(self, request: pb.SchedulerServiceGenerateRequest) -> Streamed:
        """Read the stream to its end; asserts that nothing follows the end."""
        streamed = Streamed()
        with rpc.errors_of("scheduler"):
            async for event in self.stub.Generate(request):
                assert streamed.finish_reason is None, "an event after the end"
                _collect(streamed, event_from_proto(event))
        assert streamed.finish_reason is not None, "the stream has no end"
        return streamed

    async def status(self) -> pb.GetSchedulerStatusResponse:
        return await self.stub.GetSchedulerStatus(pb.GetSchedulerStatusRequest())

    async def info(self) -> pb.GetSchedulerInfoResponse:
        with rpc.errors_of("scheduler"):
            return await self.stub.GetSchedulerInfo(pb.GetSchedulerInfoRequest())

    async def is_ready(self) -> bool:
        return await rpc.is_ready(self.channel, SERVICE)


def _collect(streamed: Streamed, event: StreamEvent) -> None:
    if isinstance(event, TokenChunk):
        assert event.token_ids, "an empty chunk"
        streamed.token_ids.extend(event.token_ids)
        streamed.chunk_sizes.append(len(event.token_ids))
        streamed.num_accepted += event.num_accepted
        streamed.logprobs.extend(event.logprobs)
        streamed.prompt_logprobs.extend(event.prompt_logprobs)
        return
    streamed.finish_reason = event.finish_reason
    streamed.stop_token_id = event.stop_token_id
    streamed.usage = event.usage
    streamed.speculation = event.speculation
    streamed.steps = event.steps


@dataclass(frozen=True)
class RunningScheduler:
    """A started server and a client of it."""

    server: SchedulerServer
    client: SchedulerClient
    target: str


@asynccontextmanager
async def running_scheduler(
    verifier: str | Sequence[str],
    candidates: str = "",
    *,
    wait_ready: bool = True,
    **settings: Any,
) -> AsyncIterator[RunningScheduler]:
    """A scheduler for the addresses, ready unless ``wait_ready`` is false."""
    # A loaded machine must not turn candidates into timeouts.
    settings = {"propose_deadline_ms": 2000.0, "policy": "fixed", **settings}
    verifiers = (verifier,) if isinstance(verifier, str) else tuple(verifier)
    services = (candidates,) if candidates else ()
    config = SchedulerConfig(verifiers, "127.0.0.1:0", services, **settings)
    server = SchedulerServer(config)
    target = f"127.0.0.1:{await server.start()}"
    client = SchedulerClient(target)
    try:
        if wait_ready:
            await until(lambda: server.scheduler.is_healthy)
        if wait_ready and candidates:
            await until(lambda: bool(server.scheduler.info.sources))
        yield RunningScheduler(server, client, target)
    finally:
        await client.channel.close()
        await server.stop()
