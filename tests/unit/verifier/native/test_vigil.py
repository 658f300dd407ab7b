"""Threads that keep processors awake: of the lowest class, and gone with their team."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dspark.verifier.native.library import Team


def num_idle_class_threads() -> int:
    found = 0
    for folder in Path("/proc/self/task").iterdir():
        try:
            found += os.sched_getscheduler(int(folder.name)) == os.SCHED_IDLE
        except ProcessLookupError:
            continue
    return found


@pytest.mark.parametrize(("keep_awake_ms", "expected"), [(0, 0), (1, 3)])
def test_a_vigil_never_competes_with_work(keep_awake_ms: int, expected: int) -> None:
    before = num_idle_class_threads()
    team = Team(3, keep_awake_ms)
    for _ in range(1000):  # a thread takes its class once it runs
        if num_idle_class_threads() - before == expected:
            break
        time.sleep(0.01)
    assert num_idle_class_threads() - before == expected
    del team
    assert num_idle_class_threads() == before
