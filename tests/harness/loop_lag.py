"""For how long an event loop could not run, in this process's processor time."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_BEAT_S = 0.001


class LoopLag:
    """A heartbeat on the running loop.

    Between two beats the loop either waits, which costs nothing, or does not run, because one of
    its callbacks or a thread that keeps the interpreter lock does.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def beat(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(_BEAT_S)
            now = time.process_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


@asynccontextmanager
async def loop_lag() -> AsyncIterator[LoopLag]:
    """Measures while the block runs. What was there before is no work for the collector then, as it
    is in a gateway's process.
    """
    gc.collect()
    gc.freeze()
    lag = LoopLag()
    task = asyncio.create_task(lag.beat())
    await asyncio.sleep(0)
    try:
        yield lag
    finally:
        task.cancel()
        gc.unfreeze()
