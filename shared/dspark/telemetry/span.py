"""A span as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

AttributeValue = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, AttributeValue]


class SpanIds(NamedTuple):
    """Names one span everywhere."""

    trace_id: int
    span_id: int


class SpanKind(Enum):
    """What a span stands for; the numbers are OTLP's."""

    INTERNAL = 1
    SERVER = 2


class SpanEvent(NamedTuple):
    """Something that happened at one moment of a span."""

    name: str
    at_ns: int
    attributes: Attributes


# Not frozen, which would triple the time to make one.
@dataclass(slots=True)
class Span:
    """A span that is over; times are nanoseconds since 1970, a parent of 0 means a root.

    ``error`` is the text of an error status, None for a span that went well. ``shared`` has further
    attributes, in an object that other spans have too: it is encoded once and must not be changed.
    """

    scope: str
    name: str
    ids: SpanIds
    parent_id: int
    start_ns: int
    end_ns: int
    attributes: Attributes
    links: Sequence[SpanIds] = ()
    kind: SpanKind = SpanKind.INTERNAL
    events: Sequence[SpanEvent] = ()
    error: str | None = None
    trace_state: str = ""
    shared: Attributes | None = None
