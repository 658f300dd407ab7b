"""The spans of a step: one in the trace of each sampled request, which link to each other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dspark.generation import TokenChunk
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.request import Request
from dspark.scheduler.request_trace import DECODE, PREFILL, SCOPE, RequestTrace
from dspark.scheduler.step_timing import StepTiming
from dspark.step import SequenceWork, StepOutcome, StepPlan, WorkResult, WorkStatus
from dspark.telemetry import tracing
from dspark.telemetry.batched_call import MAX_OWN_SPANS, links_within
from dspark.telemetry.span import Attributes, AttributeValue, Span, SpanIds
from dspark.token_tree import TokenTree


@dataclass(slots=True)
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
            self._hand_over(part, links, own, shared)

    def fail(self, error: BaseException) -> None:
        """The step has no outcome."""
        self.finish()
        for part, links in self._linked():
            own = {"error.type": type(error).__name__}
            self._hand_over(part, links, own, None, str(error))

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
        own: Attributes,
        shared: Attributes | None,
        error: str | None = None,
    ) -> None:
        if (recorder := tracing.active()) is not None:
            recorder.record(
                Span(
                    scope=SCOPE,
                    name="step",
                    ids=part.ids,
                    parent_id=part.parent_id,
                    start_ns=self._start_ns,
                    end_ns=self._end_ns,
                    attributes=own,
                    links=links,
                    error=error,
                    shared=shared,
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
        "dspark.step.ahead_ms": timing.ahead_ms,
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
    drafted = _count(tree, range(len(tree)))
    right = _count(tree, [entry - 1 for entry in accepted])
    attributes: dict[str, AttributeValue] = {}
    for name, proposed in _count(offered, range(len(offered))).items():
        attributes[f"dspark.source.{name}.proposed"] = proposed
        if name in drafted:
            attributes[f"dspark.source.{name}.drafted"] = drafted[name]
        if name in right:
            attributes[f"dspark.source.{name}.accepted"] = right[name]
    return attributes


def _count(tree: TokenTree, nodes: Iterable[int]) -> dict[str, int]:
    """How many of the nodes each source proposed; of the sources that proposed any."""
    masks = [tree.source_masks[node] for node in nodes]
    if not masks:
        return {}
    counts = (
        (name, sum(mask >> bit & 1 for mask in masks)) for bit, name in enumerate(tree.source_names)
    )
    return {name: count for name, count in counts if count}
