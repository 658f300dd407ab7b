"""A short storm over all services: what is promised to clients holds."""

from __future__ import annotations

import pytest

from harness.chaos.campaign import Campaign
from harness.chaos.fleet import running_fleet
from harness.chaos.plan import FleetPlan
from harness.chaos.storm import Storm
from harness.chaos.stream_spec import draw_specs

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
SEED = 1
KINDS = (
    "kill verifier",
    "kill scheduler",
    "kill candidates",
    "freeze verifier",
    "cut an edge",
    "truncate an edge",
    "corrupt redis",
    "kill redis",
)


async def test_streams_survive_a_short_storm(fleet_plan: FleetPlan) -> None:
    async with running_fleet(fleet_plan) as fleet:
        storm = Storm(fleet, SEED, num_faults=8, kinds=KINDS)
        report = await Campaign(draw_specs(40, SEED, longest=240), concurrency=8).run(fleet, storm)
        print(f"seed {SEED}\n{report}")
        assert report.faults.total() == 8
        assert report.verdict.num_streams >= 40
        assert not report.violations
