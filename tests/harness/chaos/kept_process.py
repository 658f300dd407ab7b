"""A process that is started again whenever it ends, as an orchestrator would do it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from dspark.cli.supervision.spec import PROCESS_VARIABLES
from harness.repository import ROOT

RESTART_PAUSE_S = 0.2
STOP_GRACE_S = 20.0
# A machine that is busy with other things needs its time; no figure depends on this.
READY_TIMEOUT_S = 180.0
_POLL_S = 0.05
_DUMP_S = 2.0


class KeptProcess:
    """``command`` with all that it prints in ``log_path``; ``is_ready`` asks it whether it serves.

    ``exits`` has its exit codes so far, negative for a signal.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        is_ready: Callable[[], Awaitable[bool]],
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.exits: list[int] = []
        self._command = command
        # Some programs are modules of this harness, and all say on a signal what they wait for.
        folders = (ROOT / "tests", ROOT / "tests/harness/stack_dumps")
        self._environment = PROCESS_VARIABLES | {"PYTHONPATH": ":".join(map(str, folders))}
        self._environment |= environment or {}
        self._is_ready = is_ready
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """None between an end and the next start."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Let it drain and do not start it again; it has ended afterwards, however it behaves."""
        if self._keeper is None or self._process is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send the signal unless there is no process now."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Raises TimeoutError with the end of the log."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.pid is None or not await self._is_ready():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            shown = self.log_path.read_text(errors="replace")[-2000:]
            raise TimeoutError(f"{self.name} is not ready:\n{shown}") from None

    async def running_pid(self) -> int:
        """The process's id, once there is one."""
        while (pid := self.pid) is None:
            await asyncio.sleep(_POLL_S)
        return pid

    async def wait_restarted(self, pid: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until another process than ``pid`` is ready; raises TimeoutError with its stacks."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.pid in (None, pid):
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise TimeoutError(f"{self.name} does not end:\n{await self._stacks()}") from None
        await self.wait_ready(timeout_s)

    async def _stacks(self) -> str:
        begin = self.log_path.stat().st_size
        self.send(signal.SIGUSR2)
        await asyncio.sleep(_DUMP_S)
        return self.log_path.read_text(errors="replace")[begin:]

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            self.exits.append(await self._process.wait())
            await asyncio.sleep(RESTART_PAUSE_S)
            await self._spawn()

    async def _spawn(self) -> None:
        with open(self.log_path, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=os.environ | self._environment,
                process_group=0,
            )
