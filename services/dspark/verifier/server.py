"""Puts the verifier together: listen, load, serve, drain."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from dspark import rpc
from dspark.background_task import end, start_background
from dspark.metrics.endpoint import MetricsEndpoint
from dspark.step import VerifierInfo
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.engine_thread import EngineThread
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.metrics import metrics_registry
from dspark.verifier.servicer import VerifierServicer
from dspark.verifier.watchdog import Watchdog

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["VerifierService"].full_name

Load = Callable[[VerifierConfig, Progress], LoadedModel]


@dataclass(frozen=True, slots=True)
class RunningVerifier:
    """A verifier that is ready; ``port`` is the bound TCP port, if it listens on one."""

    engine: Engine
    info: VerifierInfo
    port: int
    metrics: CollectorRegistry


@contextlib.asynccontextmanager
async def serving(
    config: VerifierConfig, load: Load, progress: Progress = lambda line: None
) -> AsyncIterator[RunningVerifier]:
    """Listen at once, load on the engine's thread, be ready inside the ``async with`` block.

    Raises what ``load`` raises. Leaving the block says NOT_SERVING, gives schedulers time to take
    their requests elsewhere, finishes the running step and stops.
    """
    thread = EngineThread()
    servicer = VerifierServicer(thread)
    server = rpc.Server([SERVICE_NAME], config.serving(config.allow_peers))
    pb_grpc.add_VerifierServiceServicer_to_server(servicer, server.grpc)
    registry = metrics_registry(servicer)
    with contextlib.closing(MetricsEndpoint(registry, config.metrics_port)):
        port = await server.start(config.listen)
        try:
            engine, info = await _load(config, load, thread, _recording(servicer, progress))
            servicer.set_engine(engine, info)
            async with _background(config, engine, thread, servicer, server):
                yield RunningVerifier(engine, info, port, registry)
            await _drain(servicer, server, config.drain_s)
        finally:
            await server.stop(grace=0.5)
            thread.close()


async def _load(
    config: VerifierConfig, load: Load, thread: EngineThread, progress: Progress
) -> tuple[Engine, VerifierInfo]:
    loaded = await thread.run(load, config, progress)
    settings = EngineSettings.of(
        config,
        model_digest=loaded.model_digest,
        kernel_class=loaded.kernel_class,
        is_row_invariant=loaded.exactness == "strict",
    )
    engine = Engine(
        loaded.runner,
        loaded.kv,
        settings,
        pruner=loaded.pruner,
        structures=loaded.structures,
    )
    return engine, describe(config, loaded, engine)


def describe(config: VerifierConfig, loaded: LoadedModel, engine: Engine) -> VerifierInfo:
    """What the verifier says of itself."""
    return VerifierInfo(
        model_id=config.model_id,
        model_digest=loaded.model_digest,
        vocab_size=engine.limits.vocab_size,
        max_model_len=engine.limits.max_model_len,
        eos_token_ids=engine.limits.eos_token_ids,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        max_step_rows=loaded.max_step_rows,
        exactness=loaded.exactness,
        kernel_class=loaded.kernel_class,
        dtype=loaded.dtype,
        device=loaded.device,
        verify_costs=loaded.verify_costs,
        computes_ahead=config.computes_ahead(loaded.device),
        feature_layers=engine.limits.feature_layers,
        hidden_size=loaded.runner.hidden_size,
        instance_id=uuid.uuid4().hex,
        # What arrives is kept in the prefix cache.
        kv_layout=loaded.kv.layout if engine.pool.max_cached else None,
        can_structure=engine.limits.can_structure,
    )


def _recording(servicer: VerifierServicer, progress: Progress) -> Progress:
    def record(line: str) -> None:
        servicer.progress = line
        progress(line)

    return record


async def _drain(servicer: VerifierServicer, server: rpc.Server, drain_s: float) -> None:
    await server.set_ready(False)
    await servicer.run_empty(drain_s / 2)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(servicer.drain(), drain_s / 2)


@contextlib.asynccontextmanager
async def _background(
    config: VerifierConfig,
    engine: Engine,
    thread: EngineThread,
    servicer: VerifierServicer,
    server: rpc.Server,
) -> AsyncIterator[None]:
    """Watch progress and reclaim orphans while the block runs."""
    watchdog = Watchdog(
        thread, lambda: servicer.num_failures, server.set_ready, stall_s=config.stall_s
    )
    await watchdog.report()
    tasks = [
        start_background(watchdog.run(), "watchdog"),
        start_background(_reclaim_for_ever(thread, engine, config.lease_s / 4), "reclaimer"),
    ]
    try:
        yield
    finally:
        await end(tasks)


async def _reclaim_for_ever(thread: EngineThread, engine: Engine, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        await thread.run(engine.reclaim)


async def serve(
    config: VerifierConfig, load: Load, progress: Progress, stop: asyncio.Event
) -> None:
    """Serve until ``stop`` is set, even if the model is still loading then."""
    stopped = asyncio.ensure_future(stop.wait())
    async with contextlib.AsyncExitStack() as stack:
        starting = asyncio.ensure_future(stack.enter_async_context(serving(config, load, progress)))
        await asyncio.wait({stopped, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            verifier = starting.result()
            progress(f"serving {verifier.info.model_id} on {config.listen}")
            await stopped
        else:
            starting.cancel()
            await asyncio.wait({starting})
