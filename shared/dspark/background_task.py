"""Tasks that run beside everything else, so that nobody awaits their failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

log = logging.getLogger(__name__)

CANCEL_INTERVAL_S = 0.5


def start_background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run ``work`` until it is cancelled; should it fail, which is a bug, the log says so."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until they are over; how they end does not matter.

    A library may swallow a cancellation, such as one that comes with a lost connection, and its
    task would go on for ever: so they are cancelled again and again.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_INTERVAL_S)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("task %s failed", task.get_name(), exc_info=error)
