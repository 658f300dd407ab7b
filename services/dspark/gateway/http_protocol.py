"""HTTP/1.1 connections with limits on what comes before a request's body."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dspark.gateway.http_errors import error_body
from dspark.log_limiter import LogLimiter

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0
_TOO_LARGE = 431


class _HeadTooLarge(Exception):
    pass


_limiter = LogLimiter()
_log = logging.getLogger("uvicorn.error.connections")
# What strangers send that is no HTTP is worth a warning, not one each time.
_log.addFilter(lambda record: record.levelno != logging.WARNING or _limiter.is_due(record.msg))


class HttpProtocol(HttpToolsProtocol):
    """Refuses a request line and headers that are too long, or too long in coming."""

    _head_bytes = 0
    # Whether a head is under way; one that is not complete is not seen by any callback.
    _in_head = True
    _head_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = _log

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            # The parser hands this on as a broken request.
            self._head_bytes = size
            raise _HeadTooLarge
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self) -> None:
        message = f"the request line and headers are larger than {MAX_HEAD_BYTES} bytes"
        body = json.dumps(error_body(_TOO_LARGE, message)).encode()
        head = (
            f"HTTP/1.1 {_TOO_LARGE} Request Header Fields Too Large\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
