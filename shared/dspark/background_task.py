"""Tasks that run beside everything else, so that nobody awaits their failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


def start_background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run ``work`` until it is cancelled; should it fail, which is a bug, the log says so."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("task %s failed", task.get_name(), exc_info=error)
