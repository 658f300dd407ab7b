"""Keeps the services running: start together, wait until ready, restart, stop in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from dspark import rpc
from dspark.cli.failure import CliError
from dspark.cli.supervision.child import Child
from dspark.cli.supervision.restarts import RestartBudget
from dspark.cli.supervision.spec import ServiceSpec

_STOP_GRACE_S = 5.0
_POLL_S = 0.1
# A service that cannot run as it is asked to ends with the first of them.
_USAGE, _FAILED = 2, 1
# Without candidates decoding goes on, so their restarts never end the server.
_DISPENSABLE = "candidates"


class Supervisor:
    """The services of one run, as an async context manager; all have ended when it is left.

    Leaving it lets them drain; a task that is cancelled meanwhile is in a hurry, and kills them.
    ``on_progress`` gets a service's name and progress line, ``on_event`` what a person should know.
    """

    def __init__(
        self,
        specs: Sequence[ServiceSpec],
        log_dir: Path,
        on_progress: Callable[[str, str], None],
        on_event: Callable[[str], None],
    ) -> None:
        self._on_progress = on_progress
        self._on_event = on_event
        self._children = [
            Child(spec, log_dir / f"{spec.name}.log", self._progress_of(spec)) for spec in specs
        ]
        self._keepers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            for child in self._children:
                await child.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def wait_ready(self) -> None:
        """Wait until every service is ready; raises CliError if one ends before.

        From then on services that end are restarted.
        """
        readies = [asyncio.create_task(wait_ready(child.spec)) for child in self._children]
        ends = [asyncio.create_task(self._fail_on_end(child)) for child in self._children]
        all_ready = asyncio.create_task(_all_of(readies))
        try:
            await asyncio.wait({all_ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                if end.done():
                    end.result()
            await all_ready
        finally:
            for task in (all_ready, *readies, *ends):
                task.cancel()
            await asyncio.gather(all_ready, *readies, *ends, return_exceptions=True)
        self._keepers = [asyncio.create_task(self._keep(child)) for child in self._children]

    async def wait_failed(self) -> None:
        """Wait until a service cannot be kept running, then raise CliError."""
        done, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _progress_of(self, spec: ServiceSpec) -> Callable[[str], None]:
        return lambda line: self._on_progress(spec.name, line)

    async def _fail_on_end(self, child: Child) -> None:
        code = await child.wait()
        raise CliError(child.describe_end(code), _USAGE if code == _USAGE else _FAILED)

    async def _keep(self, child: Child) -> None:
        budget = RestartBudget(endless=child.spec.name == _DISPENSABLE)
        code = await child.wait()
        while True:
            pause = budget.pause_after_end(time.monotonic())
            if pause is None:
                raise CliError(f"{child.describe_end(code)}\n  it ends again and again")
            self._on_event(f"{child.describe_end(code)}\n  it starts again in {pause:g} s")
            await asyncio.sleep(pause)
            await child.start()
            ready = asyncio.create_task(self._announce_ready(child))
            try:
                code = await child.wait()
            finally:
                ready.cancel()

    async def _announce_ready(self, child: Child) -> None:
        await wait_ready(child.spec)
        self._on_event(f"{child.spec.name} serves again")

    async def _stop(self) -> None:
        try:
            for keeper in self._keepers:
                keeper.cancel()
            await asyncio.gather(*self._keepers, return_exceptions=True)
            caller, *called = self._children
            await caller.stop(_STOP_GRACE_S)
            await asyncio.gather(*(child.stop(_STOP_GRACE_S) for child in called))
        except asyncio.CancelledError:
            await asyncio.gather(*(child.end() for child in self._children))
            raise


async def _all_of(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


async def wait_ready(spec: ServiceSpec) -> None:
    """Poll the service's health until it is ready."""
    channel = rpc.channel(spec.address)
    try:
        while not await rpc.is_ready(channel, spec.health_name):
            await asyncio.sleep(_POLL_S)
    finally:
        await channel.close(None)
