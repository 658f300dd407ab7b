"""Keeps a message that could come with every call from filling the log."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_PAUSE_S = 60.0
_MAX_KINDS = 1024


class LogLimiter:
    """Of each kind of message the first is due, and then one a minute; safe in any thread."""

    def __init__(
        self, pause_s: float = _PAUSE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._next_at: OrderedDict[Hashable, float] = OrderedDict()

    def is_due(self, kind: Hashable) -> bool:
        now = self._clock()
        if now < self._next_at.get(kind, now):
            return False
        self._next_at[kind] = now + self._pause_s
        self._next_at.move_to_end(kind)
        # Kinds may be named by strangers, so they must not pile up.
        if len(self._next_at) > _MAX_KINDS:
            self._next_at.popitem(last=False)
        return True
