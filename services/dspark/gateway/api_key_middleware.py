"""API keys of HTTP requests: checked before a request is routed or its body read."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dspark.errors import Unauthenticated
from dspark.gateway.api_keys import ApiKeys
from dspark.gateway.caller import ANYBODY, Caller, set_caller
from dspark.gateway.http_errors import response_of

METRICS_PATH = "/metrics"
# Probes and load balancers have no key.
_OPEN_PATHS = frozenset({"/health", "/ready"})


def open_paths(metrics_are_open: bool) -> frozenset[str]:
    """The paths that need no key."""
    return _OPEN_PATHS | ({METRICS_PATH} if metrics_are_open else frozenset())


class ApiKeyMiddleware:
    """Every path needs a key but /health, /ready and, with ``metrics_are_open``, /metrics."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, metrics_are_open: bool) -> None:
        self._app = app
        self._keys = keys
        self._open = open_paths(metrics_are_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A pipelined request inherits what was set for the one before it.
        set_caller(ANYBODY)
        if scope["path"] not in self._open:
            try:
                set_caller(self._caller_of(scope))
            except Unauthenticated as error:
                await response_of(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _caller_of(self, scope: Scope) -> Caller:
        given = Headers(scope=scope).getlist("authorization")
        host = scope["client"][0] if scope.get("client") else "a unix socket"
        return self._keys.caller_of(given[0] if len(given) == 1 else None, host)
