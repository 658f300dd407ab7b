"""How many waves: the arithmetic of rounds, and what is tried and kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.scheduler.wave_choice import (
    WAVES,
    FixedWaves,
    MeasuredWaves,
    StepParts,
    WaveStep,
    better_count,
    two_wave_round_ms,
)
from dspark.scheduler.wave_rates import LEAST_TOKENS, MAX_AGE, WaveRates
from harness.fake_verifier import FakeVerifier

NUM_RUNNING = 16


@pytest.mark.parametrize(
    ("half", "round_ms"),
    [
        # both halves are in the verifier all the time
        (StepParts(5.0, 1.0, 3.0), 12.0),
        # the verifier rests while both are away
        (StepParts(5.0, 1.0, 20.0), 26.0),
        # candidates answer one call at a time
        (StepParts(5.0, 1.0, 20.0, propose_ms=18.0), 36.0),
    ],
)
def test_a_round_is_as_long_as_what_is_busiest(half: StepParts, round_ms: float) -> None:
    assert two_wave_round_ms(half) == round_ms


def test_the_number_changes_for_more_than_a_little() -> None:
    assert better_count(1, 1.0, 1.01) == 1
    assert better_count(1, 1.0, 1.1) == 2
    assert better_count(2, 1.0, 1.01) == 2
    assert better_count(2, 1.0, 1.1) == 1


def test_a_model_on_processors_has_one_wave_and_no_other() -> None:
    info = FakeVerifier().info
    assert WAVES["auto"](info).most == 1
    assert WAVES["auto"](replace(info, device="cuda:0")).most == 2
    assert WAVES["2"](info).count(1, 8, lambda number: 1.0) == 2


def test_one_request_is_one_wave() -> None:
    for choice in (FixedWaves(2), MeasuredWaves()):
        assert choice.count(2, 1, lambda number: 1.0) == 1


def pass_ms(num_requests: float) -> float:
    return 0.5 * num_requests


def step(tokens: float, ms: float, propose_ms: float = 0.0, num: int = NUM_RUNNING) -> WaveStep:
    away_ms = max(ms - pass_ms(num), 0.0)
    parts = StepParts(pass_ms(num), 0.0, away_ms, propose_ms)
    return WaveStep(num, round(tokens), ms, away_ms, parts)


def settled(choice: MeasuredWaves, present: int, each: WaveStep) -> int:
    """What is chosen once the rate of the present number is known."""
    for _ in range(round(LEAST_TOKENS / each.num_tokens) + 1):
        choice.observe(present, NUM_RUNNING, each)
    return choice.count(present, NUM_RUNNING, pass_ms)


def test_nothing_is_tried_before_the_present_rate_is_known() -> None:
    choice = MeasuredWaves()
    choice.observe(1, NUM_RUNNING, step(16, 20.0))
    assert choice.count(1, NUM_RUNNING, pass_ms) == 1


def test_two_waves_are_tried_where_the_tables_promise_a_shorter_round() -> None:
    """8 ms in the verifier and 12 away: 20; two waves of 4 and 6 take 10."""
    assert settled(MeasuredWaves(), 1, step(16, 20.0)) == 2


def test_two_waves_are_not_tried_where_nothing_is_away() -> None:
    assert settled(MeasuredWaves(), 1, step(16, 8.0)) == 1


def test_two_waves_are_tried_where_candidates_are_asked() -> None:
    assert settled(MeasuredWaves(), 1, step(16, 8.5, propose_ms=0.5)) == 2


def test_what_was_tried_stays_if_it_gave_more() -> None:
    choice = MeasuredWaves()
    settled(choice, 1, step(16, 20.0))
    assert settled(choice, 2, step(8, 6.0, num=8)) == 2
    assert choice.count(1, NUM_RUNNING, pass_ms) == 2


def test_what_was_tried_goes_if_it_gave_less_and_is_not_tried_soon_again() -> None:
    choice = MeasuredWaves()
    settled(choice, 1, step(16, 20.0))
    assert settled(choice, 2, step(8, 11.0, num=8)) == 1
    assert settled(choice, 1, step(16, 20.0)) == 1


def test_a_hopeless_trial_ends_early() -> None:
    choice = MeasuredWaves()
    settled(choice, 1, step(16, 20.0))
    for _ in range(40):
        choice.observe(2, NUM_RUNNING, step(8, 20.0, num=8))
    assert choice.count(2, NUM_RUNNING, pass_ms) == 1
    assert choice.count(1, NUM_RUNNING, pass_ms) == 1


def test_other_loads_are_tried_for_themselves() -> None:
    choice = MeasuredWaves()
    settled(choice, 1, step(16, 20.0))
    settled(choice, 2, step(8, 11.0, num=8))
    assert choice.count(1, 4 * NUM_RUNNING, pass_ms) == 1
    assert choice.count(2, 4 * NUM_RUNNING, pass_ms) == 2


def test_a_rate_is_tokens_over_time_and_is_forgotten() -> None:
    rates = WaveRates()
    assert rates.of(1, 8) is None
    for _ in range(200):
        rates.observe(1, 8, 8, 4.0)
    assert rates.of(1, 8) == pytest.approx(2.0)
    assert rates.of(2, 8) is None
    for _ in range(MAX_AGE + 1):
        rates.observe(2, 8, 8, 4.0)
    assert rates.of(1, 8) is None
