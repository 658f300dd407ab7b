from __future__ import annotations

from dspark.log_limiter import LogLimiter


def test_each_kind_is_due_once_in_a_pause() -> None:
    now = 0.0
    limiter = LogLimiter(pause_s=60.0, clock=lambda: now)
    assert [limiter.is_due(kind) for kind in ("a", "b", "a", "b")] == [True, True, False, False]
    now = 59.0
    assert not limiter.is_due("a")
    now = 60.0
    assert limiter.is_due("a")
    assert not limiter.is_due("a")


def test_kinds_do_not_pile_up() -> None:
    limiter = LogLimiter(clock=lambda: 0.0)
    for kind in range(5000):
        assert limiter.is_due(kind)
    assert len(limiter._next_at) <= 1024
    assert not limiter.is_due(4999)
