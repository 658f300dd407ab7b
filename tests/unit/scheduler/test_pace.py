"""The speed of a verifier by its last steps."""

from __future__ import annotations

import pytest

from dspark.scheduler.pace import Pace, Speed
from dspark.scheduler.step_timing import StepTiming
from dspark.step import SequenceWork, StepOutcome, StepPlan, WorkResult, WorkStatus

TIMING = StepTiming(propose_ms=1.0, verify_ms=14.0, forward_ms=12.0, overhead_ms=3.0)


def decode_step(pace: Pace, *, committed: int, rows: int, pending: int = 1) -> None:
    work = (SequenceWork("r", 1, 10, pending), SequenceWork("s", 1, 10, pending))
    tokens = tuple(range(committed))
    results = tuple(
        WorkResult(w.request_id, 1, WorkStatus.DONE, committed_token_ids=tokens) for w in work
    )
    pace.observe(
        TIMING, StepPlan("s", 1, work=work), StepOutcome(1, results=results, num_rows=rows)
    )


def test_steps_say_how_many_rows_and_tokens_a_request_has() -> None:
    pace = Pace()
    for _ in range(200):
        decode_step(pace, committed=3, rows=10)
    speed = pace.speed(512, lambda rows: 2.0 * rows)
    assert speed.rows_per_decode == pytest.approx(5.0, rel=1e-3)
    assert speed.tokens_per_step == pytest.approx(3.0, rel=1e-3)
    assert speed.token_ms(4) == pytest.approx((2.0 * 20 + 3.0) / 3, rel=0.05)


def test_prompts_say_nothing_of_decoding() -> None:
    pace = Pace()
    for _ in range(50):
        decode_step(pace, committed=1, rows=300, pending=150)
        decode_step(pace, committed=0, rows=300)
    assert pace.speed(512, None).rows_per_decode == 1.0


def test_without_measured_costs_a_pass_takes_what_passes_took() -> None:
    pace = Pace()
    decode_step(pace, committed=1, rows=2)
    assert pace.speed(512, None).pass_ms(7) == pytest.approx(12.0)


def test_prompt_tokens_share_full_steps() -> None:
    speed = Speed(lambda rows: 0.5 * rows, max_rows=100, overhead_ms=10.0)
    assert speed.row_ms == pytest.approx(0.6)
    assert speed.token_ms(0) == 0.0
