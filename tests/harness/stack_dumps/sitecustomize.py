"""In a process whose PYTHONPATH has this folder SIGUSR2 prints where its tasks and threads are."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import sys
from collections.abc import Iterator
from types import FrameType


def _dump(number: int, frame: FrameType | None) -> None:
    tasks = [found for found in gc.get_objects() if isinstance(found, asyncio.Task)]
    for task in tasks:
        if not task.done():
            print("---", task.get_name(), *_awaited(task.get_coro()), sep="\n  ", file=sys.stderr)
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()


def _awaited(awaitable: object) -> Iterator[str]:
    """Each coroutine that awaits the next, and what the last one awaits."""
    while (frame := getattr(awaitable, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        awaitable = getattr(awaitable, "cr_await", None)
    yield repr(awaitable)


signal.signal(signal.SIGUSR2, _dump)
