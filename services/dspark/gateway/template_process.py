"""The gateway's side of a process that renders chat templates."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import weakref
from dataclasses import dataclass

from dspark.errors import InternalError, InvalidArgument
from dspark.gateway.template_worker import READY, read_frame, write_frame
from dspark.gateway.worker_starts import MAX_STARTS

log = logging.getLogger(__name__)

WORKER = "dspark.gateway.template_worker"


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """What one rendering may take."""

    seconds: float = 2.0
    max_bytes: int = 1 << 28
    max_chars: int = 1 << 25


class TemplateProcess:
    """One process, started when it is first needed and again after it ended."""

    def __init__(self, limits: TemplateLimits) -> None:
        self._limits = limits
        self._child: subprocess.Popen[bytes] | None = None

    def exchange(self, frame: bytes) -> bytes:
        """Blocks until the answer is there, hence no longer than the limit.

        Raises InvalidArgument for a rendering that had to be ended.
        """
        child = self._running()
        assert child.stdin is not None and child.stdout is not None
        try:
            write_frame(child.stdin, frame)
            reply = read_frame(child.stdout)
        except OSError:
            reply = None
        if reply is not None:
            return reply
        self._child = None
        raise self._failure(_end(child))

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            _end(self._child)
            self._child = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            _end(self._child)
            self._child = None
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> subprocess.Popen[bytes]:
        limits = self._limits
        given = map(str, (limits.seconds, limits.max_bytes, limits.max_chars))
        command = [sys.executable, "-m", WORKER, *given]
        for _ in range(MAX_STARTS):
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert child.stdout is not None
            if read_frame(child.stdout) == READY:
                weakref.finalize(self, _kill, child)
                return child
            log.error("the process of chat templates did not start: it ended with %d", _end(child))
        raise InternalError("chat templates cannot be rendered now")

    def _failure(self, code: int) -> Exception:
        if code == -signal.SIGALRM:
            problem = f"the chat template takes longer than {self._limits.seconds:g} seconds"
            return InvalidArgument("messages", problem)
        if code < 0:
            return InvalidArgument("messages", "the chat template ended its process")
        return InternalError("chat templates cannot be rendered")


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        child.kill()
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> int:
    """Close what leads to a child that has ended, or is about to; its exit code."""
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was not yet written to it
                pass
    return child.wait()
