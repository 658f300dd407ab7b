"""Files that are read again when they change, without ever putting a broken state to use."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from dspark.config import SettingError

Value = TypeVar("Value")
log = logging.getLogger(__name__)

CHECK_S = 1.0
_Signature = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles(Generic[Value]):
    """What ``read`` makes of the files; it raises SettingError for what cannot be used.

    That ends the start. Later the last good value stays, and each broken state of the files is
    logged once. Files are looked at when ``value`` is asked for, at most once in ``check_s``.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[], Value],
        check_s: float = CHECK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = tuple(path for path in paths if path)
        self._read = read
        self._check_s = check_s
        self._clock = clock
        self._lock = threading.Lock()
        self._signature = self._signature_now()
        self._value = read()
        self._next_check_at = clock() + check_s

    def value(self) -> Value:
        """The same object until the files have changed; callable from any thread."""
        if self._clock() >= self._next_check_at:
            with self._lock:
                self._check()
        return self._value

    def _check(self) -> None:
        now = self._clock()
        if now < self._next_check_at:
            return
        self._next_check_at = now + self._check_s
        signature = self._signature_now()
        if signature == self._signature:
            return
        self._signature = signature
        names = ", ".join(self._paths)
        try:
            self._value = self._read()
        except SettingError as error:
            log.error("%s changed and cannot be used, so the last state stays: %s", names, error)
            return
        log.info("%s changed: read again", names)

    def _signature_now(self) -> _Signature:
        return tuple(map(_signature_of, self._paths))


def _signature_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
