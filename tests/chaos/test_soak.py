"""Ten minutes of load with clients that hang up: memory stays what it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.chaos.fleet import running_fleet
from harness.chaos.plan import REAL_VERIFIER, FleetPlan
from harness.chaos.soak import Soak
from harness.chaos.stream_spec import draw_specs
from harness.served import make_tiny_model_dir

pytestmark = [pytest.mark.chaos, pytest.mark.long]
SEED = 3
# What a service holds settles within the second minute.
DURATION_S, WARM_UP_S = 600.0, 120.0


@pytest.mark.timeout(DURATION_S + 600)
async def test_memory_stays_level_under_load(fleet_plan: FleetPlan) -> None:
    make_tiny_model_dir(fleet_plan.model_dir)
    plan = replace(fleet_plan, verifier_module=REAL_VERIFIER, num_verifiers=1)
    async with running_fleet(plan) as fleet:
        report = await Soak(draw_specs(100, SEED), DURATION_S, WARM_UP_S).run(fleet)
        print(f"\nsoak of {DURATION_S:g} s, seed {SEED}\n{report}")
        assert not report.violations
