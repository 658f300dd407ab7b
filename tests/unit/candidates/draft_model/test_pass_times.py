from __future__ import annotations

import pytest

from dspark.candidates.draft_model.pass_times import PassTimes


def test_unseen_sizes_go_by_those_that_were_seen() -> None:
    times = PassTimes()
    assert times.estimate(8) == 0.0
    times.add(8, 1.0)
    assert [times.estimate(rows) for rows in (1, 8, 15, 16, 32)] == [1.0, 1.0, 1.0, 2.0, 4.0]
    times.add(64, 3.0)
    assert [times.estimate(rows) for rows in (16, 32, 128)] == [2.0, 3.0, 6.0]


def test_estimates_follow_and_fade() -> None:
    times = PassTimes()
    times.add(4, 1.0)
    for _ in range(60):
        times.add(5, 3.0)
    assert times.estimate(4) == pytest.approx(3.0, rel=1e-3)
    for _ in range(10):
        times.refused()
    assert times.estimate(4) < 1.5
