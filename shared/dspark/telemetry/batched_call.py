"""Spans of a call that serves several requests at once.

Each sampled request gets the call as a span in its own trace, under the step that the caller named;
the first of these links to the others and they link to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dspark.telemetry import tracing
from dspark.telemetry.recorder import new_span_id
from dspark.telemetry.span import Attributes, Span, SpanIds, SpanKind
from dspark.telemetry.trace_context import from_traceparent

# Further requests of a batch are linked to, but have no span of their own.
MAX_OWN_SPANS = 16


def record_call(
    scope: str,
    name: str,
    traceparents: Sequence[str],
    start_ns: int,
    end_ns: int,
    attributes: Attributes,
) -> None:
    """``traceparents`` name the callers' spans; one that is malformed is left out."""
    recorder = tracing.active()
    if recorder is None:
        return
    parents = [ids for text in traceparents if (ids := from_traceparent(text)) is not None]
    own = [SpanIds(parent.trace_id, new_span_id()) for parent in parents[:MAX_OWN_SPANS]]
    all_links = links_within(own, parents[MAX_OWN_SPANS:])
    for ids, parent, links in zip(own, parents, all_links, strict=False):
        recorder.record(
            Span(
                scope,
                name,
                ids,
                parent.span_id,
                start_ns,
                end_ns,
                {},
                links,
                SpanKind.SERVER,
                shared=attributes,
            )
        )


def links_within(
    own: Sequence[SpanIds], further: Sequence[SpanIds] = ()
) -> Iterable[list[SpanIds]]:
    """For each span its links: of the first to all others, of these to the first."""
    first = own[:1]
    return [[*own[1:], *further], *(list(first) for _ in own[1:])] if first else []
