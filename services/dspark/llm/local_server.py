"""The services of an LLM and a client of them; they end with it, or with the process."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from dspark.cli.embedded import services_for
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.preflight import prepared_model
from dspark.client import AsyncClient, ClientClosed
from dspark.client.event_loop import BackgroundLoop

Result = TypeVar("Result")


class LocalServer:
    """Runs on the SDK's background loop, so that callers may have a running loop of their own.

    Raises CliError if the services cannot be started as the config asks.
    """

    def __init__(self, config: ServicesConfig, progress: Progress) -> None:
        # On the caller's thread: it may fetch for minutes, and others use the loop.
        model = prepared_model(config, progress)
        self._lock = threading.Lock()
        self._is_open = True
        self._loop = BackgroundLoop.acquire()
        try:
            self.client, self._running = self._loop.run(_start(config, model, progress))
        except BaseException:
            self._loop.release()
            raise
        atexit.register(self.close)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the coroutine on the loop of ``client``; raises ClientClosed after ``close``."""
        if not self._is_open:
            coroutine.close()
            raise ClientClosed
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Cancel what runs and end the services; further calls do nothing."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        atexit.unregister(self.close)
        try:
            self._loop.run(self._running.aclose())
        finally:
            self._loop.release()

    def close_soon(self) -> None:
        """``close`` on a thread of its own, for callers that may be on the loop's thread."""
        threading.Thread(target=self.close, name="dspark-close").start()


async def _start(
    config: ServicesConfig, model: PreparedModel, progress: Progress
) -> tuple[AsyncClient, AsyncExitStack]:
    """A client of services that answer, and what ends both."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(services_for(config, model, progress))
        # The services ask for no key, so none of the environment is sent to them.
        client = await stack.enter_async_context(AsyncClient(target, api_key=""))
        return client, stack.pop_all()
