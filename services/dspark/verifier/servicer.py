"""dspark.v1.VerifierService: decode, run on the engine's thread, encode."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from dspark.errors import Draining, DSparkError, NotReady
from dspark.step import VerifierInfo
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.engine import Engine
from dspark.verifier.engine_thread import EngineThread
from dspark.verifier.step_books import StepBooks
from dspark.verifier.step_log import StepLog
from dspark.verifier.step_trace import trace_step
from dspark.wire.step import outcome_to_proto, plan_from_proto, verifier_info_to_proto

log = logging.getLogger(__name__)


class VerifierServicer(pb_grpc.VerifierServiceServicer):
    """Answers NotReady until ``set_engine``, and Draining after ``drain``."""

    def __init__(self, thread: EngineThread) -> None:
        self.books = StepBooks()
        self._thread = thread
        self._engine: Engine | None = None
        self._info: pb.GetVerifierInfoResponse | None = None
        self._steps: StepLog[pb.StepResponse] = StepLog()
        self._is_draining = False
        # Steps in a row that failed by a bug or a broken device.
        self.num_failures = 0
        # What the long part that runs now is; told to callers that come too early.
        self.progress = "starting"
        self._computes_ahead = False
        self._ahead: asyncio.Future[None] | None = None

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

    async def drain(self) -> None:
        """Take no new step and wait for the running one."""
        self._is_draining = True
        await self._steps.drain()
        if self._ahead is not None:
            await asyncio.wait({self._ahead})

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
        if self._is_draining:
            raise Draining("the verifier is shutting down")
        if self._engine is None:
            raise NotReady(f"the verifier is not ready: {self.progress}")
        engine = self._engine
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

    async def _run(
        self, engine: Engine, request: pb.StepRequest, arrived_ns: int
    ) -> pb.StepResponse:
        began_ns = time.time_ns()
        step = self._thread.queue(self._step, engine, request, arrived_ns)
        if request.compute_ahead and self._computes_ahead:
            # Follows the step at once; the reply is sent meanwhile.
            self._ahead = self._thread.queue(_compute_ahead, engine)
        response = await step
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


def _compute_ahead(engine: Engine) -> None:
    try:
        engine.compute_ahead()
    except Exception as error:
        # Nothing is lost: the next step computes it again, and then its failure counts.
        log.warning("a pass ahead of its step failed: %r", error)
