"""Hundreds of streams under faults of every kind: ``make chaos``."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from harness.chaos.campaign import Campaign
from harness.chaos.faults import FAULTS, LONG_FAULTS
from harness.chaos.fleet import running_fleet
from harness.chaos.plan import FleetPlan
from harness.chaos.storm import Storm
from harness.chaos.stream_spec import draw_specs

pytestmark = [pytest.mark.chaos, pytest.mark.long]
SEED = int(os.environ.get("CHAOS_SEED", "1"))
NUM_STREAMS = 200
NUM_FAULTS = 2 * len(FAULTS)


@pytest.mark.timeout(1800)
async def test_streams_survive_a_long_storm(fleet_plan: FleetPlan) -> None:
    async with running_fleet(replace(fleet_plan, num_schedulers=2)) as fleet:
        storm = Storm(fleet, SEED, NUM_FAULTS, pause_s=(0.3, 1.5))
        campaign = Campaign(draw_specs(NUM_STREAMS, SEED), concurrency=12, hang_up_share=0.1)
        report = await campaign.run(fleet, storm)
        print(f"\nseed {SEED}\n{report}")
        assert report.faults.total() == NUM_FAULTS >= 30
        assert len(report.faults) >= 6
        assert report.verdict.num_streams >= NUM_STREAMS
        assert not report.violations


@pytest.mark.timeout(900)
async def test_streams_leave_what_stands_still_for_long(fleet_plan: FleetPlan) -> None:
    async with running_fleet(replace(fleet_plan, num_schedulers=2)) as fleet:
        storm = Storm(fleet, SEED, 4, tuple(LONG_FAULTS), overlap=1, pause_s=(1.0, 3.0))
        report = await Campaign(draw_specs(40, SEED), concurrency=6).run(fleet, storm)
        print(f"\nseed {SEED}\n{report}")
        assert report.faults.total() == 4
        assert not report.violations
