"""One event loop on a background thread, for sync callers of async code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from dspark.client.closed import ClientClosed

Result = TypeVar("Result")
_CLEANUP_SECONDS = 30.0


class BackgroundLoop:
    """The process's one background loop, as gRPC shares one poller among all its channels.

    It runs from the first ``acquire`` to the last ``release``, on a daemon thread.
    """

    _lock = threading.Lock()
    _current: BackgroundLoop | None = None

    def __init__(self) -> None:
        self._num_users = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="dspark-client", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> BackgroundLoop:
        """The running loop; each caller releases it once."""
        with cls._lock:
            loop = cls._current = cls._current or cls()
            loop._num_users += 1
            return loop

    def release(self) -> None:
        """The last user's release ends the thread; each ``run`` counts as a user."""
        with self._lock:
            self._num_users -= 1
            if self._num_users:
                return
            BackgroundLoop._current = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the coroutine; an interrupted wait (Ctrl-C) cancels it and awaits its end.

        Raises ClientClosed if the last user has released the loop.
        """
        with self._lock:
            if not self._num_users:
                coroutine.close()
                raise ClientClosed
            self._num_users += 1
        try:
            return self._run(coroutine)
        finally:
            self.release()

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        ended = threading.Event()

        async def tracked() -> Result:
            try:
                return await coroutine
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(tracked(), self._loop)
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            future.cancel()
            ended.wait(_CLEANUP_SECONDS)
            raise

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
