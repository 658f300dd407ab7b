"""A task that nobody awaits does not fail in silence."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dspark import background_task
from dspark.background_task import start_background


async def fail() -> None:
    raise RuntimeError("a bug")


async def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await asyncio.wait({start_background(fail(), "work")})
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.levelno == logging.CRITICAL and record.exc_info is not None
    assert record.getMessage() == "task work failed"


async def test_an_end_and_a_cancellation_are_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    ended = start_background(asyncio.sleep(0), "ended")
    cancelled = start_background(asyncio.sleep(60), "cancelled")
    cancelled.cancel()
    await asyncio.wait({ended, cancelled})
    await asyncio.sleep(0)
    assert not caplog.records


async def test_a_task_that_swallows_a_cancellation_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_task, "CANCEL_INTERVAL_S", 0.01)
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await background_task.end([task, asyncio.create_task(asyncio.sleep(0))])
    assert task.cancelled() and swallowed == 3
    await background_task.end([])
