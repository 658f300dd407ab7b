"""One clock for all of a scheduler."""

from __future__ import annotations

import re
import time

import pytest

from dspark import clock
from harness.repository import module_name, sources

OWN_TIME = re.compile(r"\btime\.(perf_counter|monotonic)\b")


def test_the_clock_is_the_machines_unless_it_is_replaced() -> None:
    assert clock.monotonic() <= time.perf_counter() <= clock.monotonic()
    with clock.replaced(lambda: 7.0):
        assert clock.monotonic() == 7.0
    assert clock.monotonic() != 7.0


def test_it_is_back_after_a_failure() -> None:
    with pytest.raises(KeyError), clock.replaced(lambda: 7.0):
        raise KeyError
    assert clock.monotonic() != 7.0


def test_the_scheduler_goes_by_no_other() -> None:
    """What it measures by another clock would let real time into a simulation."""
    scheduler = [path for path in sources() if module_name(path).startswith("dspark.scheduler.")]
    assert len(scheduler) > 30
    assert not [path.name for path in scheduler if OWN_TIME.search(path.read_text())]
