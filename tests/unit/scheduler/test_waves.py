"""Who is in which wave, who has work, and whose time it is."""

from __future__ import annotations

import pytest

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler import waves as waves_module
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals
from dspark.scheduler.wave_choice import FixedWaves, WaveStep
from dspark.scheduler.waves import Waves

STEP = WaveStep(1, 1, 1.0, 0.0)


class Setting:
    """Requests that run in the first wave."""

    def __init__(self, num_running: int = 0, num_waves: int = 2) -> None:
        self.live = LiveRequests(100, Numbers(lambda: 1), Totals())
        self.waves = Waves(self.live, 100, FixedWaves(num_waves))
        self.woken: list[int] = []
        for wave in self.waves.members:
            wave.wake = lambda index=wave.index: self.woken.append(index)  # type: ignore[misc]
        self.requests = [self.admit() for _ in range(num_running)]

    def wait(self) -> Request:
        name = f"r{len(self.live)}"
        return self.live.submit(RequestSpec(name, (1, 2), SamplingParams(max_tokens=5)))

    def admit(self) -> Request:
        request = self.wait()
        self.live.admit(request)
        return request

    @property
    def placed(self) -> list[int]:
        return [request.wave for request in self.live.running]


def test_an_idle_verifier_is_stepped_by_its_first_wave() -> None:
    setting = Setting()
    first, second = setting.waves.members
    assert not first.has_work and not second.has_work
    setting.wait()
    assert first.has_work and not second.has_work


def test_what_waits_joins_the_wave_that_steps() -> None:
    setting = Setting(1)
    first, second = setting.waves.members
    setting.requests[0].wave = 1
    setting.wait()
    assert second.has_work and not first.has_work
    second.rest()
    assert setting.woken == [0]


def test_with_two_waves_half_of_the_requests_change_between_two_steps() -> None:
    setting = Setting(5)
    first, second = setting.waves.members
    first.turn()
    assert setting.placed == [0] * 5
    setting.waves.count = 2
    first.turn()
    assert setting.placed == [0, 0, 0, 1, 1]
    assert setting.woken == [1]
    second.turn()
    first.turn()
    assert setting.placed == [0, 0, 0, 1, 1]


def test_with_one_wave_the_other_gives_all_away_once_its_step_is_over() -> None:
    setting = Setting(4)
    first, second = setting.waves.members
    setting.waves.count = 2
    first.turn()
    setting.waves.count = 1
    first.turn()
    assert setting.placed == [0, 0, 1, 1]
    assert not first.is_alone
    second.turn()
    assert setting.placed == [0] * 4
    assert first.is_alone and not second.has_work


def test_a_request_leaves_the_verifier_between_two_steps_of_its_own_wave() -> None:
    setting = Setting(2)
    first, second = setting.waves.members
    setting.waves.count = 2
    first.turn()
    left: list[Request] = []
    for request in setting.requests:
        setting.live.depart(request, left.append)
    waiting = setting.wait()
    setting.live.depart(waiting, left.append)
    first.turn()
    assert left == [setting.requests[0], waiting]
    second.turn()
    assert left == [setting.requests[0], waiting, setting.requests[1]]


def test_the_times_of_overlapping_steps_add_up_to_the_time_that_passes() -> None:
    waves = Setting().waves
    # (began, ended) in seconds, in the order in which they end
    steps = [(0.0, 10.0), (2.0, 16.0), (10.0, 20.0), (16.0, 30.0), (40.0, 45.0)]
    own = [waves.finished(began, ended) for began, ended in steps]
    assert own == [10e3, 6e3, 4e3, 10e3, 5e3]


def test_the_number_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves_module, "CHOICE_INTERVAL", 4)
    setting = Setting(2)
    counts = []
    for _ in range(5):
        setting.waves.choose(STEP, lambda number: 1.0)
        counts.append(setting.waves.count)
    assert counts == [1, 1, 1, 2, 2]


def test_without_a_choice_there_is_one_wave() -> None:
    setting = Setting(3, num_waves=1)
    (only,) = setting.waves.members
    only.turn()
    assert only.running == setting.requests
    assert only.is_alone


def test_what_a_pass_of_the_other_wave_covers_is_no_cost_of_drafting() -> None:
    exposure = Setting().waves
    exposure.count = 2
    for _ in range(200):
        exposure.exposure.observe(1.0, 8.0, is_ahead=False)
    assert exposure.exposure.drafting.value == pytest.approx(1 / 8, rel=0.01)
    assert exposure.exposure.overhead.plain_ms == pytest.approx(0.0, abs=0.01)
    exposure.count = 1
    exposure.exposure.observe(9.0, 8.0, is_ahead=False)
    assert exposure.exposure.drafting.value == 1.0
