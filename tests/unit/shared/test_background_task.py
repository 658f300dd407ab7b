"""A task that nobody awaits does not fail in silence."""

from __future__ import annotations

import asyncio
import logging

import pytest

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
