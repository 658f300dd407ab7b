"""Health follows finished steps."""

from __future__ import annotations

from dspark.scheduler.progress import Progress


def test_work_without_a_finished_step_is_a_stall() -> None:
    now = [0.0]
    progress = Progress(stall_s=5.0, clock=lambda: now[0])
    now[0] = 100.0
    assert progress.is_idle and not progress.is_stalled
    progress.busy()
    now[0] = 104.0
    progress.busy()
    assert not progress.is_stalled
    now[0] = 105.1
    assert progress.is_stalled
    progress.stepped()
    assert not progress.is_stalled
    now[0] = 200.0
    assert progress.is_stalled
    progress.idle()
    assert not progress.is_stalled
