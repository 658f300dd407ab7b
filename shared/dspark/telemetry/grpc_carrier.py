"""The trace context that a gRPC call brought."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dspark.telemetry import tracing


class CallContext(Protocol):
    """What is needed of a servicer's context."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def carrier_of(context: CallContext) -> dict[str, str]:
    """The call's metadata in text; empty where this process does not trace."""
    if tracing.active() is None:
        return {}
    pairs = context.invocation_metadata() or ()
    return {name: value for name, value in pairs if isinstance(value, str)}
