"""A rolling restart: every process in turn, each only when the one before serves again."""

from __future__ import annotations

import asyncio
import signal

from harness.chaos.fleet import Fleet

_PAUSE_S = 0.3


class RollingRestart:
    """What an update does to a fleet, one SIGTERM after another. ``order`` has the names so far."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.order: list[str] = []
        self.is_over = False

    async def run(self) -> None:
        """Raises TimeoutError when one does not end, or does not come back."""
        for name, process in self._fleet.processes.items():
            pid = await process.running_pid()
            process.send(signal.SIGTERM)
            await process.wait_restarted(pid)
            self.order.append(name)
            await asyncio.sleep(_PAUSE_S)
        self.is_over = True
