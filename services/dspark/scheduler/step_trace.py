"""The spans of a step: one in the trace of each sampled request, which link to each other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dspark.generation import TokenChunk
from dspark.sampling import SpeculationStats
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.request import Request
from dspark.scheduler.request_trace import DECODE, PREFILL, SCOPE, RequestTrace
from dspark.scheduler.stats import count_round
from dspark.scheduler.step_timing import StepTiming
from dspark.step import SequenceWork, StepOutcome, StepPlan, WorkResult, WorkStatus
from dspark.telemetry import tracing
from dspark.telemetry.batched_call import MAX_OWN_SPANS, links_within
from dspark.telemetry.span import AttributeValue, Span, SpanIds
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class _Part:
    """The step as one request's span of it."""

    request: Request
    ids: SpanIds
    parent_id: int


@dataclass(frozen=True, slots=True)
class StepFacts:
    """All that the spans tell. ``chunks`` has what was committed, ``offered`` the trees that
    candidates proposed.
    """

    plan: StepPlan
    outcome: StepOutcome
    timing: StepTiming
    price: float
    chunks: Mapping[Request, TokenChunk]
    offered: Mapping[Request, TokenTree]


class StepTrace:
    """Begun before candidates are asked; recorded once the next step is on its way."""

    def __init__(self, traced: Sequence[tuple[ScheduledRows, RequestTrace]]) -> None:
        self._start_ns = self._end_ns = time.time_ns()
        self._parts: list[_Part] = []
        self._further: list[SpanIds] = []
        for rows, trace in traced:
            _enter_phase(rows, trace, self._start_ns)
            begun = trace.begin_step(may_trace=len(self._parts) < MAX_OWN_SPANS)
            if begun is None:
                self._further.append(trace.span.ids)
            else:
                self._parts.append(_Part(rows.request, *begun))

    def finish(self) -> None:
        """The step is over now."""
        self._end_ns = time.time_ns()

    def record(self, facts: StepFacts) -> None:
        """Hand the spans over."""
        work = {entry.request_id: entry for entry in facts.plan.work}
        results = {result.request_id: result for result in facts.outcome.results}
        shared = _shared_attributes(facts)
        for part, links in self._linked():
            request_id = part.request.request_id
            own = _own_attributes(part, work.get(request_id), results.get(request_id), facts)
            self._hand_over(part, links, shared | own)

    def fail(self, error: BaseException) -> None:
        """The step has no outcome."""
        self.finish()
        for part, links in self._linked():
            self._hand_over(part, links, {"error.type": type(error).__name__}, str(error))

    def _linked(self) -> Iterable[tuple[_Part, list[SpanIds]]]:
        return zip(
            self._parts,
            links_within([part.ids for part in self._parts], self._further),
            strict=True,
        )

    def _hand_over(
        self,
        part: _Part,
        links: Sequence[SpanIds],
        attributes: Mapping[str, AttributeValue],
        error: str | None = None,
    ) -> None:
        if (recorder := tracing.active()) is not None:
            times = (self._start_ns, self._end_ns)
            recorder.record(
                Span(
                    SCOPE, "step", part.ids, part.parent_id, *times, attributes, links, error=error
                )
            )


def begin(batch: Batch) -> StepTrace | None:
    """None where no request of the batch is sampled."""
    traced = [
        (rows, trace) for rows in batch.scheduled if (trace := rows.request.trace) is not None
    ]
    return StepTrace(traced) if traced else None


def traceparents_of(requests: Iterable[Request]) -> tuple[str, ...]:
    """What a call for these requests tells of the step that makes it."""
    traces = (request.trace for request in requests if request.trace is not None)
    return tuple(trace.step_traceparent for trace in traces if trace.step_traceparent)


def _enter_phase(rows: ScheduledRows, trace: RequestTrace, now_ns: int) -> None:
    if rows.is_admission:
        trace.enter(PREFILL, now_ns)
    elif rows.request.num_pending_tokens == 1:
        trace.enter(DECODE, now_ns)


def _shared_attributes(facts: StepFacts) -> dict[str, AttributeValue]:
    timing = facts.timing
    return {
        "dspark.step.id": facts.plan.step_id,
        "dspark.step.requests": len(facts.plan.work),
        "dspark.step.rows": facts.outcome.num_rows,
        "dspark.step.price_tokens_per_ms": facts.price,
        "dspark.step.propose_ms": timing.propose_ms,
        "dspark.step.verify_ms": timing.verify_ms,
        "dspark.step.queue_ms": facts.outcome.queue_ns / 1e6,
        "dspark.step.forward_ms": timing.forward_ms,
        "dspark.step.overhead_ms": timing.overhead_ms,
    }


def _own_attributes(
    part: _Part, work: SequenceWork | None, result: WorkResult | None, facts: StepFacts
) -> dict[str, AttributeValue]:
    tree = work.tree if work is not None else TokenTree()
    chunk = facts.chunks.get(part.request)
    accepted = result.accepted_nodes if result is not None and chunk is not None else ()
    attributes: dict[str, AttributeValue] = {
        "dspark.rows": (work.max_pending_rows if work is not None else 0) + len(tree),
        "dspark.tree.nodes": len(tree),
        "dspark.tree.depth": max(tree.depths, default=0),
        "dspark.accepted_nodes": len(accepted),
        "dspark.committed_tokens": len(chunk.token_ids) if chunk is not None else 0,
    }
    if result is not None and result.status is not WorkStatus.DONE:
        attributes["dspark.status"] = result.status.name.lower()
    return attributes | _by_source(facts.offered.get(part.request, tree), tree, accepted)


def _by_source(
    offered: TokenTree, tree: TokenTree, accepted: tuple[int, ...]
) -> dict[str, AttributeValue]:
    """Nodes that each source proposed, that were bought of them, and that were right."""
    attributes: dict[str, AttributeValue] = {}
    proposed, bought = SpeculationStats(), SpeculationStats()
    count_round((proposed,), offered, ())
    count_round((bought,), tree, accepted)
    for name, counts in proposed.sources.items():
        drafted = bought.sources.get(name)
        attributes[f"dspark.source.{name}.proposed"] = counts.drafted
        attributes[f"dspark.source.{name}.drafted"] = drafted.drafted if drafted else 0
        attributes[f"dspark.source.{name}.accepted"] = drafted.accepted if drafted else 0
    return attributes
