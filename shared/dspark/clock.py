"""The time that schedulers go by: the machine's own, or a simulation's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_source: Callable[[], float] = time.perf_counter


def monotonic() -> float:
    """Seconds since some moment; it never goes back, whatever is done to the wall clock."""
    return _source()


@contextmanager
def replaced(source: Callable[[], float]) -> Iterator[None]:
    """Let ``monotonic`` be what ``source`` says, in the whole process."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
