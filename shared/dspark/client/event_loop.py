"""One event loop on a background thread, for sync callers of async code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")
_CLEANUP_SECONDS = 30.0


class BackgroundLoop:
    """An event loop that runs on its own daemon thread until the process ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="dspark-client", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the coroutine; an interrupted wait (Ctrl-C) cancels it and awaits its end."""
        ended = threading.Event()

        async def tracked() -> Result:
            try:
                return await coroutine
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(tracked(), self.loop)
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            future.cancel()
            ended.wait(_CLEANUP_SECONDS)
            raise


@cache
def background_loop() -> BackgroundLoop:
    """The process's one background loop: gRPC shares one poller among all its channels."""
    return BackgroundLoop()
