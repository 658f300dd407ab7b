"""Waits for what is about to happen."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool | Awaitable[bool]], timeout_s: float = 10.0) -> None:
    """Wait until the condition, async or not, holds; raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not await _value(condition()):
            await asyncio.sleep(0.005)


async def _value(given: bool | Awaitable[bool]) -> bool:
    return await given if inspect.isawaitable(given) else bool(given)
