"""What the running task works on: its request and its span, for logs and outgoing calls."""

from __future__ import annotations

import sys
from contextvars import ContextVar

from dspark.telemetry.recorder import OpenSpan

Metadata = tuple[tuple[str, str], ...]

# Set at the start of the task that serves a request, and never reset: the task ends with it.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
span: ContextVar[OpenSpan | None] = ContextVar("span", default=None)


def outgoing_metadata() -> Metadata | None:
    """The metadata of a call that continues the running task's trace; None outside of one."""
    open_span = span.get()
    return None if open_span is None else open_span.carrier


def callers_metadata() -> Metadata | None:
    """The same for a program that uses OpenTelemetry itself, such as one with the SDK's client."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple(carrier.items()) or None
