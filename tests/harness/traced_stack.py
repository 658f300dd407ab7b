"""All four services in this process behind a gateway, traced as the OTEL_* variables say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import httpx

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.interface import CandidateSource
from dspark.gateway.config import GatewayConfig
from dspark.gateway.server import GatewayServer
from dspark.telemetry import tracing
from dspark.verifier.config import VerifierConfig
from dspark.verifier.server import Load
from harness.byte_tokenizer import write_model_dir
from harness.otlp_receiver import OtlpReceiver
from harness.whole_stack import WholeStack, whole_stack

MODEL = "traced-model"


@dataclass(frozen=True)
class TracedStack:
    """A running stack with its gateway and an HTTP client of it."""

    stack: WholeStack
    server: GatewayServer
    client: httpx.AsyncClient

    @property
    def grpc_target(self) -> str:
        return f"127.0.0.1:{self.server.grpc_port}"


def grpc_variables(receiver: OtlpReceiver, **more: str) -> dict[str, str]:
    """Send all to the receiver by gRPC, soon."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.grpc_endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **more,
    }


@contextmanager
def traced_process(variables: Mapping[str, str], service: str = "test") -> Iterator[None]:
    """This process traces while the block runs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with mock.patch.dict(os.environ, {**clean, **variables}, clear=True):
        tracing.start(service)
        try:
            yield
        finally:
            tracing.stop()


@asynccontextmanager
async def traced_stack(
    folder: Path,
    load: Load,
    variables: Mapping[str, str],
    sources: Sequence[CandidateSource] | None = None,
    **scheduler_settings: object,
) -> AsyncIterator[TracedStack]:
    """``load`` makes the verifier's model, whose vocabulary must hold the byte tokenizer's."""
    write_model_dir(folder)
    sources = sources or build_sources(CandidatesConfig())
    config = VerifierConfig("fake", "127.0.0.1:0", kv_tokens=2048, block_size=4)
    with traced_process(variables):
        async with (
            whole_stack(load, config, sources, **scheduler_settings) as stack,
            _gateway(folder, stack.scheduler.target) as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.http_port}", timeout=30.0
            ) as client,
        ):
            yield TracedStack(stack, server, client)


@asynccontextmanager
async def _gateway(model_dir: Path, scheduler: str) -> AsyncIterator[GatewayServer]:
    server = GatewayServer(
        GatewayConfig(
            model_dir=str(model_dir),
            served_model_name=MODEL,
            scheduler=(scheduler,),
            http="127.0.0.1:0",
            grpc="127.0.0.1:0",
        )
    )
    await server.start()
    stopped = asyncio.create_task(server.wait_stopped())
    await server.gateway.monitor.refresh()
    try:
        yield server
    finally:
        server.stop()
        await stopped
