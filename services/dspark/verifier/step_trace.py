"""The span of a step in the verifier, in the trace of each sampled request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dspark.telemetry.batched_call import record_call

SCOPE = "dspark.verifier"


class StepReply(Protocol):
    """What is told of a finished step, as in the message StepResponse."""

    step_id: int
    queue_ns: int
    forward_ns: int
    ahead_ns: int
    num_rows: int
    num_free_blocks: int

    @property
    def results(self) -> Sequence[object]: ...


def trace_step(traceparents: Sequence[str], start_ns: int, end_ns: int, reply: StepReply) -> None:
    """Record the step."""
    attributes = {
        "dspark.step.id": reply.step_id,
        "dspark.step.requests": len(reply.results),
        "dspark.step.rows": reply.num_rows,
        "dspark.step.queue_ms": reply.queue_ns / 1e6,
        "dspark.step.forward_ms": reply.forward_ns / 1e6,
        "dspark.step.ahead_ms": reply.ahead_ns / 1e6,
        "dspark.kv.free_blocks": reply.num_free_blocks,
    }
    record_call(SCOPE, "verify", traceparents, start_ns, end_ns, attributes)
