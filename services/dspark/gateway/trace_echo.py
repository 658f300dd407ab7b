"""The caller's W3C trace headers in the response, so that an answer names its trace."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dspark.telemetry.trace_context import TRACEPARENT, TRACESTATE, from_traceparent

MAX_TRACESTATE_CHARS = 512


class TraceEcho:
    """Echoes a valid ``traceparent``, and its ``tracestate``; others are ignored as W3C asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        echoed = _echoed(Headers(scope=scope)) if scope["type"] == "http" else {}
        if not echoed:
            await self._app(scope, receive, send)
            return

        async def send_with_trace(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(echoed)
            await send(message)

        await self._app(scope, receive, send_with_trace)


def _echoed(headers: Headers) -> dict[str, str]:
    parents = headers.getlist(TRACEPARENT)
    if len(parents) != 1 or from_traceparent(parents[0]) is None:
        return {}
    state = ",".join(headers.getlist(TRACESTATE))
    has_state = bool(state) and len(state) <= MAX_TRACESTATE_CHARS and state.isprintable()
    return {TRACEPARENT: parents[0]} | ({TRACESTATE: state} if has_state else {})
