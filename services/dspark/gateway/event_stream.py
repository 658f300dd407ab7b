"""A server-sent event stream that stops its work when the client hangs up."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dspark.gateway.disconnect import ClientGone, cancel_on_disconnect


def server_sent(data: str, name: str = "") -> bytes:
    """One event; a name is for surfaces that give their events one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data}\n\n".encode()


class EventStreamResponse(Response):
    """Sends each item of ``events`` as one write; ``events`` is closed whatever happens."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events) as events:
            try:
                async with cancel_on_disconnect(receive):
                    await send(
                        {
                            "type": "http.response.start",
                            "status": self.status_code,
                            "headers": self.raw_headers,
                        }
                    )
                    async for event in events:
                        if event:
                            await send(
                                {"type": "http.response.body", "body": event, "more_body": True}
                            )
            except ClientGone:
                scope["state"]["hung_up"] = True
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
