"""Counts HTTP responses by route and status."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dspark.gateway.http_errors import CLIENT_GONE_STATUS

NO_ROUTE = "other"


class ResponseCounter:
    """Middleware around the router; unknown paths share one label value."""

    def __init__(self, app: ASGIApp, counter: Counter[tuple[str, str]]) -> None:
        self._app = app
        self._counter = counter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            if scope["state"].get("hung_up"):
                status = CLIENT_GONE_STATUS
            path = getattr(scope.get("route"), "path", NO_ROUTE)
            self._counter[path, str(status)] += 1
