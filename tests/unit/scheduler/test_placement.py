"""Placement in plain numbers: speed, queues, prefixes and places decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.scheduler.pace import Speed
from dspark.scheduler.placement import Job, WorkerView, completion_ms, cost_ms, delay_ms, place


def linear(fixed_ms: float, row_ms: float) -> Speed:
    return Speed(lambda rows: fixed_ms + row_ms * rows, max_rows=512)


def slower(speed: Speed, factor: float) -> Speed:
    return Speed(lambda rows: factor * speed.pass_ms(rows), speed.max_rows)


FAST = linear(10.0, 4.0)
JOB = Job(num_uncached=100, num_output=100.0)


def view(name: str = "a", speed: Speed = FAST, num_slots: int = 64) -> WorkerView:
    return WorkerView(name, speed, num_slots)


def fill(views: list[WorkerView], job: Job, count: int) -> dict[str, int]:
    """How many of ``count`` equal requests each gets."""
    by_name = {v.name: v for v in views}
    for _ in range(count):
        chosen = place([(v, job) for v in by_name.values()])
        by_name[chosen.name] = chosen.plus(job)
    return {name: v.num_requests for name, v in by_name.items()}


def test_equal_verifiers_get_equal_shares() -> None:
    assert fill([view("a"), view("b"), view("c")], JOB, 30) == {"a": 10, "b": 10, "c": 10}


def test_a_verifier_at_a_quarter_of_the_speed_gets_about_a_quarter_of_the_load() -> None:
    shares = fill([view("fast"), view("slow", slower(FAST, 4.0))], JOB, 50)
    assert 3.0 <= shares["fast"] / shares["slow"] <= 5.5


def test_a_job_waits_for_those_before_it_and_for_a_place() -> None:
    busy = replace(view(num_slots=2), num_requests=2, num_uncached=50, num_output=200.0)
    token_ms = FAST.token_ms(2)
    wait_ms = 1 * 100.0 * token_ms / 2
    prefill_ms = 150 * FAST.row_ms
    assert completion_ms(busy, JOB) == pytest.approx(wait_ms + prefill_ms + 100 * token_ms)


def test_the_delay_of_the_others_counts_until_all_places_are_taken() -> None:
    busy = replace(view(num_slots=3), num_requests=2, num_output=80.0)
    step_ms = FAST.token_ms(3) - FAST.token_ms(2)
    assert delay_ms(busy, JOB) == pytest.approx(2 * 100 * FAST.row_ms + step_ms * 80)
    full = replace(busy, num_requests=3)
    assert delay_ms(full, JOB) == pytest.approx(3 * 100 * FAST.row_ms)


def test_a_cached_prefix_draws_requests_until_its_verifier_is_busy() -> None:
    views = {name: view(name) for name in ("warm", "cold")}
    prompt = 2000
    placed = []
    for _ in range(40):
        jobs = {"warm": Job(10, 100.0), "cold": Job(prompt, 100.0)}
        chosen = place([(views[name], jobs[name]) for name in views])
        placed.append(chosen.name)
        views[chosen.name] = chosen.plus(jobs[chosen.name])
    assert placed[:4] == ["warm"] * 4
    assert "cold" in placed


def test_costs_that_are_nearly_equal_are_decided_by_the_backlog() -> None:
    noisy = Speed(lambda rows: 10.1, max_rows=512)
    flat = Speed(lambda rows: 10.0, max_rows=512)
    job = Job(1, 100.0)
    busy = view("busy", flat).plus(job)
    assert place([(busy, job), (view("idle", noisy), job)]).name == "idle"


def test_what_is_added_can_be_taken_away() -> None:
    assert view().plus(JOB).minus(JOB) == view()
    assert cost_ms(view(), JOB) == completion_ms(view(), JOB)
