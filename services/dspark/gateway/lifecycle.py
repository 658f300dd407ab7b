"""Serving, draining, stopping: which requests may start and when the process may end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from dspark.errors import Draining

_MESSAGE = "the server is shutting down"


class Lifecycle:
    """Counts running requests and ends them when the time to drain is over."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_draining = False
        self._is_refusing = False
        self._is_cutting = False

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    @property
    def num_running(self) -> int:
        return len(self._tasks)

    def start_draining(self) -> None:
        """Say not ready; requests are still accepted."""
        self._is_draining = True

    def refuse(self) -> None:
        """Accept no more requests."""
        self._is_draining = self._is_refusing = True

    def check_accepting(self) -> None:
        if self._is_refusing:
            raise Draining(_MESSAGE)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around a request, in the task that serves it. Raises Draining when its time is over."""
        self.check_accepting()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._is_cutting and task.uncancel() == 0:
                raise Draining(_MESSAGE) from None
            raise
        finally:
            self._tasks.discard(task)

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait for running requests to end; whether they did."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._tasks and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        return not self._tasks

    def cut(self) -> None:
        """End the requests that still run; each raises Draining to its client."""
        self._is_cutting = True
        for task in self._tasks:
            task.cancel()
