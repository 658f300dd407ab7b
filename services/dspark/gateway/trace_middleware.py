"""A span for each HTTP request that generates, whatever becomes of it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dspark.gateway.request_trace import CHAT, TEXT, current_trace, traced

OPERATIONS = {"/v1/completions": TEXT, "/v1/chat/completions": CHAT, "/v1/responses": CHAT}
_FIRST_ERROR = 400


class TraceMiddleware:
    """Installed only where traces are on."""

    def __init__(self, app: ASGIApp, model: str) -> None:
        self._app = app
        self._model = model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = OPERATIONS.get(scope.get("path", ""))
        if scope["type"] != "http" or operation is None:
            await self._app(scope, receive, send)
            return

        async def send_and_note(message: Message) -> None:
            trace = current_trace()
            if trace is not None and message.get("status", 0) >= _FIRST_ERROR:
                trace.failed(str(message["status"]))
            await send(message)

        with traced(operation, self._model, Headers(scope=scope)):
            await self._app(scope, receive, send_and_note)
