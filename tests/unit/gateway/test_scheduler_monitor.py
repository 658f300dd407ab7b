"""Readiness follows the scheduler's answers; requests outlive a passing failure."""

from __future__ import annotations

import asyncio

import pytest

from dspark.errors import BackendUnavailable, DSparkError, NotReady
from dspark.gateway import scheduler_monitor
from dspark.gateway.scheduler_monitor import SchedulerMonitor
from harness.scripted_source import INFO, ScriptedSource


@pytest.mark.parametrize(
    ("answer", "is_ready"),
    [
        (INFO, True),
        (NotReady("loading"), False),
        (BackendUnavailable("verifier", "gone"), False),
        (BackendUnavailable("scheduler", "gone"), False),
    ],
)
async def test_ready_is_what_answers_with_its_info(answer: DSparkError, is_ready: bool) -> None:
    monitor = SchedulerMonitor(ScriptedSource(answer))
    assert not monitor.is_ready
    await monitor.refresh()
    assert monitor.is_ready is is_ready


async def test_the_last_info_serves_through_a_passing_failure() -> None:
    source = ScriptedSource(NotReady("loading"))
    monitor = SchedulerMonitor(source)
    await monitor.refresh()
    with pytest.raises(NotReady, match="loading"):
        monitor.require_info()
    source.answer = INFO
    await monitor.refresh()
    source.answer = BackendUnavailable("scheduler", "gone")
    await monitor.refresh()
    assert monitor.require_info() is INFO
    assert not monitor.is_ready


async def test_watching_reports_changes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_monitor, "POLL_INTERVAL_S", 0)
    monkeypatch.setattr(scheduler_monitor, "RETRY_INTERVAL_S", 0)
    source = ScriptedSource(NotReady("loading"))
    changes: list[bool] = []

    async def note(is_ready: bool) -> None:
        changes.append(is_ready)

    watch = asyncio.create_task(SchedulerMonitor(source).watch(note))
    for answer in (INFO, INFO, NotReady("lost"), INFO):
        for _ in range(5):
            await asyncio.sleep(0)
        source.answer = answer
    for _ in range(5):
        await asyncio.sleep(0)
    watch.cancel()
    assert changes == [False, True, False, True]
