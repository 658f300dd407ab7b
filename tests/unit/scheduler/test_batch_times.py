"""Times by the number of requests."""

from __future__ import annotations

import pytest

from dspark.scheduler.batch_times import BatchTimes


def seen(*points: tuple[int, float]) -> BatchTimes:
    times = BatchTimes()
    for number, ms in points:
        times.observe(number, ms)
    return times


def test_nothing_was_seen() -> None:
    assert BatchTimes().ms(8) == seen((0, 3.0)).ms(8) == 0.0


def test_outside_of_what_was_seen_times_go_with_the_number() -> None:
    times = seen((8, 4.0))
    assert [times.ms(number) for number in (4, 8, 16)] == [2.0, 4.0, 8.0]


def test_between_two_sizes_there_is_a_line() -> None:
    times = seen((8, 4.0), (16, 5.0), (64, 20.0))
    assert [times.ms(number) for number in (8, 12, 16, 40, 64)] == [4.0, 4.5, 5.0, 12.5, 20.0]


def test_sizes_of_one_doubling_are_averaged() -> None:
    times = seen(*[(8, 4.0), (12, 8.0)] * 100)
    assert times.ms(10) == pytest.approx(6.0, rel=0.1)
