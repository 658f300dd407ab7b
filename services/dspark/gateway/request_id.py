"""X-Request-Id: validated or drawn, and echoed."""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dspark.errors import InvalidArgument
from dspark.gateway.http_errors import response_of
from dspark.telemetry import current

HEADER = "x-request-id"
_VALID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


def draw_request_id() -> str:
    return secrets.token_hex(12)


def check_request_id(text: str, field: str) -> str:
    """The id itself; raises InvalidArgument that names the field."""
    if not _VALID.fullmatch(text):
        raise InvalidArgument(
            field, "must be 1 to 128 letters, digits, dots, colons, slashes, dashes or underscores"
        )
    return text


class RequestIdMiddleware:
    """Puts a request's id into ``scope["state"]["request_id"]`` and into the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER)
        request_id = draw_request_id()
        app = self._app
        if given is not None:
            try:
                request_id = check_request_id(given, "X-Request-Id")
            except InvalidArgument as error:
                app = response_of(error)
        scope.setdefault("state", {})["request_id"] = request_id
        current.request_id.set(request_id)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await app(scope, receive, send_with_id)
