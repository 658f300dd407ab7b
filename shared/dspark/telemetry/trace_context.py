"""The W3C ``traceparent``: how a span is named to another process."""

from __future__ import annotations

from dspark.telemetry.span import SpanIds

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
_LENGTH = 55
_HEX = frozenset("0123456789abcdef")


def to_traceparent(ids: SpanIds, is_sampled: bool = True) -> str:
    return f"00-{ids.trace_id:032x}-{ids.span_id:016x}-0{int(is_sampled)}"


def from_traceparent(text: str) -> SpanIds | None:
    """The ids; None where the text is not version 00 or names no span."""
    trace, span = text[3:35], text[36:52]
    is_shaped = len(text) == _LENGTH and text[:3] == "00-" and text[35] == text[52] == "-"
    if not is_shaped or not _HEX.issuperset(trace + span):
        return None
    ids = SpanIds(int(trace, 16), int(span, 16))
    return ids if all(ids) else None
