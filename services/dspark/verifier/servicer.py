"""dspark.v1.VerifierService: decode, run on the engine's thread, encode."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from dspark.errors import DeadlineExceeded, Draining, DSparkError, NotReady
from dspark.step import SequenceRef, VerifierInfo
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.engine import Engine
from dspark.verifier.engine_thread import EngineThread
from dspark.verifier.kv.block_exchange import BlockImport
from dspark.verifier.step_books import StepBooks
from dspark.verifier.step_log import StepLog
from dspark.verifier.step_trace import trace_step
from dspark.wire.kv_blocks import (
    blocks_from_proto,
    blocks_to_proto,
    head_from_proto,
    type_to_proto,
)
from dspark.wire.step import outcome_to_proto, plan_from_proto, verifier_info_to_proto

log = logging.getLogger(__name__)

# While this verifier ends: without a step for so long nobody is going to take requests elsewhere.
QUIET_S = 1.0
EMPTY_POLL_S = 0.02
# Longest wait for the next message of an import, which holds blocks.
IMPORT_PAUSE_S = 10.0


class VerifierServicer(pb_grpc.VerifierServiceServicer):
    """Answers NotReady until ``set_engine``, and Draining after ``drain``."""

    def __init__(self, thread: EngineThread) -> None:
        self.books = StepBooks()
        self._thread = thread
        self._engine: Engine | None = None
        self._info: pb.GetVerifierInfoResponse | None = None
        self._steps: StepLog[pb.StepResponse] = StepLog()
        self._is_draining = False
        self._is_ending = False
        self._stepped_at = 0.0
        # Steps in a row that failed by a bug or a broken device.
        self.num_failures = 0
        # What the long part that runs now is; told to callers that come too early.
        self.progress = "starting"
        self._computes_ahead = False
        self._after: asyncio.Future[None] | None = None

    def set_engine(self, engine: Engine, info: VerifierInfo) -> None:
        self._engine = engine
        self._computes_ahead = info.computes_ahead
        self._info = verifier_info_to_proto(info)

    @property
    def engine(self) -> Engine | None:
        return self._engine

    @property
    def running_s(self) -> float:
        """How long the present step has been running; 0 when none is."""
        return self._thread.running_s

    @property
    def num_repeats(self) -> int:
        return self._steps.num_repeats

    async def run_empty(self, timeout_s: float) -> None:
        """Say that this verifier ends, until no scheduler has a sequence here or steps any more.

        Those that step already may go on meanwhile, so that their requests move when it suits them.
        """
        self._is_ending = True
        if self._info is not None:
            self._info.is_ending = True
        self._stepped_at = time.monotonic()
        give_up_at = self._stepped_at + timeout_s
        while self._is_in_use and time.monotonic() < give_up_at:
            await asyncio.sleep(EMPTY_POLL_S)

    @property
    def _is_in_use(self) -> bool:
        is_stepping = self.running_s > 0 or time.monotonic() - self._stepped_at < QUIET_S
        return is_stepping and self._engine is not None and len(self._engine.sequences) > 0

    async def drain(self) -> None:
        """Take no new step and wait for the running one."""
        self._is_draining = True
        await self._steps.drain()
        if self._after is not None:
            await asyncio.wait({self._after})

    async def GetVerifierInfo(
        self,
        request: pb.GetVerifierInfoRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> pb.GetVerifierInfoResponse:
        if self._info is None:
            raise NotReady(f"the verifier is not ready: {self.progress}")
        return self._info

    async def Step(
        self, request: pb.StepRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.StepResponse:
        arrived_ns = time.perf_counter_ns()
        engine = self._ready_engine()
        if self._is_ending and not self._steps.knows(request.scheduler_id):
            raise Draining("the verifier is about to shut down")
        return await self._steps.once(
            request.scheduler_id,
            request.step_id,
            lambda: self._run(engine, request, arrived_ns),
        )

    async def StreamStep(
        self,
        requests: AsyncIterator[pb.StreamStepRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.StreamStepResponse]:
        async for request in requests:
            yield pb.StreamStepResponse(step=await self.Step(request.step, context))

    async def ExportBlocks(
        self, request: pb.ExportBlocksRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.ExportBlocksResponse]:
        exchange = self._ready_engine().exchange
        sequence = SequenceRef(request.sequence.request_id, request.sequence.epoch)
        num_sent = 0
        while True:
            blocks = await self._thread.run(exchange.export, sequence, num_sent)
            if blocks is None:
                return
            response = pb.ExportBlocksResponse(blocks=blocks_to_proto(blocks))
            if not num_sent:
                response.type.CopyFrom(type_to_proto(exchange.type))
            num_sent += len(blocks.data) // exchange.type.layout.block_bytes
            yield response

    async def ImportBlocks(
        self,
        requests: AsyncIterator[pb.ImportBlocksRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.ImportBlocksResponse]:
        exchange = self._ready_engine().exchange
        incoming: BlockImport | None = None
        try:
            async for request in _in_time(requests, IMPORT_PAUSE_S):
                if incoming is None:
                    head = head_from_proto(request.head)
                    incoming = await self._thread.run(exchange.begin_import, head)
                else:
                    await self._thread.run(incoming.add, blocks_from_proto(request.blocks))
                yield pb.ImportBlocksResponse(
                    num_tokens=incoming.num_tokens, is_full=incoming.is_full
                )
        finally:
            if incoming is not None:
                # Runs even if nobody waits for it any more.
                self._thread.queue(incoming.close)

    def _ready_engine(self) -> Engine:
        if self._is_draining:
            raise Draining("the verifier is shutting down")
        if self._engine is None:
            raise NotReady(f"the verifier is not ready: {self.progress}")
        return self._engine

    async def _run(
        self, engine: Engine, request: pb.StepRequest, arrived_ns: int
    ) -> pb.StepResponse:
        began_ns = time.time_ns()
        step = self._thread.queue(self._step, engine, request, arrived_ns)
        # What follows the step at once; the reply is sent meanwhile.
        if request.top_k:
            self._after = self._thread.queue(_rank_successors, engine)
        if request.compute_ahead and self._computes_ahead:
            self._after = self._thread.queue(_compute_ahead, engine)
        response = await step
        response.is_ending = self._is_ending
        self._stepped_at = time.monotonic()
        if not request.traceparents:
            return response
        # Runs once the reply is on its way.
        asyncio.get_running_loop().call_soon(
            trace_step, request.traceparents, began_ns, time.time_ns(), response
        )
        return response

    def _step(self, engine: Engine, request: pb.StepRequest, arrived_ns: int) -> pb.StepResponse:
        started_ns = time.perf_counter_ns()
        plan = plan_from_proto(request)
        try:
            outcome = engine.step(plan, arrived_ns)
        except DSparkError:
            raise
        except Exception:
            self.num_failures += 1
            self.books.num_failures += 1
            raise
        self.num_failures = 0
        queue_ns = started_ns - arrived_ns
        self.books.observe(outcome, queue_ns, time.perf_counter_ns() - started_ns)
        response = outcome_to_proto(outcome)
        response.queue_ns = queue_ns
        response.total_ns = time.perf_counter_ns() - arrived_ns
        return response


async def _in_time(
    requests: AsyncIterator[pb.ImportBlocksRequest], pause_s: float
) -> AsyncIterator[pb.ImportBlocksRequest]:
    """The messages; raises DeadlineExceeded if one takes too long to come."""
    while True:
        try:
            async with asyncio.timeout(pause_s):
                request = await anext(requests, None)
        except TimeoutError:
            raise DeadlineExceeded("the next blocks did not come in time") from None
        if request is None:
            return
        yield request


def _rank_successors(engine: Engine) -> None:
    try:
        engine.rank_successors()
    except Exception as error:
        # Candidates learn less.
        log.warning("what may follow the rows of a step is not known: %r", error)


def _compute_ahead(engine: Engine) -> None:
    try:
        engine.compute_ahead()
    except Exception as error:
        # Nothing is lost: the next step computes it again, and then its failure counts.
        log.warning("a pass ahead of its step failed: %r", error)
