"""One child process: start, log, stop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path

from dspark.cli.supervision.launch import launch_command
from dspark.cli.supervision.spec import ServiceSpec

_PROGRESS = b"progress: "
_LINE_LIMIT = 1 << 20
_SHOWN_LINES = 15


class Child:
    """A service process. ``on_progress`` gets its progress lines, the log file all it writes."""

    def __init__(
        self, spec: ServiceSpec, log_path: Path, on_progress: Callable[[str], None]
    ) -> None:
        self.spec = spec
        self.log_path = log_path
        self._on_progress = on_progress
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)

    async def start(self) -> None:
        """Start it in a process group of its own, so that Ctrl-C reaches only the parent."""
        spec = self.spec
        self._process = await asyncio.create_subprocess_exec(
            *launch_command(spec.module, spec.arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | spec.environment,
            process_group=0,
            limit=_LINE_LIMIT,
        )
        assert self._process.stdout is not None
        self._pump = asyncio.create_task(self._copy(self._process.stdout))

    async def wait(self) -> int:
        """The exit code, negative for a signal, once the process has ended and its log is whole."""
        assert self._process is not None and self._pump is not None
        code = await self._process.wait()
        await asyncio.wait({self._pump})
        return code

    async def stop(self, grace: float) -> None:
        """SIGTERM, then SIGKILL after ``grace`` seconds."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait(), grace)
        except TimeoutError:
            await self.end()

    async def end(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def describe_end(self, code: int) -> str:
        """What to tell a person about the end of the process."""
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        lines = "\n".join(f"    {line}" for line in self._last_lines)
        return f"{self.spec.name} {how}\n{lines}\n  whole log: {self.log_path}"

    async def _copy(self, stream: asyncio.StreamReader) -> None:
        with _open_log(self.log_path) as log:
            while line := await _read_line(stream):
                # A full disk must not stop the reading: the child would block on its next line.
                with contextlib.suppress(OSError):
                    log.write(line)
                text = line.decode(errors="replace").rstrip()
                if line.startswith(_PROGRESS):
                    self._on_progress(text[len(_PROGRESS) :])
                elif text:
                    self._last_lines.append(text)


def _open_log(path: Path) -> io.RawIOBase:
    """The log file, in a folder that is made anew if it is gone; nowhere if that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(path, "a")
    except OSError:
        return io.FileIO(os.devnull, "w")


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """A line, or a piece of one that is longer than the limit; empty at the end."""
    try:
        return await stream.readline()
    except ValueError:
        return await stream.read(_LINE_LIMIT)
