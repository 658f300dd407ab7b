"""Every process of a fleet is restarted in turn under load: no client sees it."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from harness.chaos.fleet import running_fleet
from harness.chaos.load import Load
from harness.chaos.log_scan import complaints
from harness.chaos.plan import FleetPlan
from harness.chaos.rolling import RollingRestart
from harness.chaos.stream_spec import draw_specs
from harness.chaos.verdict import judge, make_twins

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
SEED = 4
NUM_STREAMS = 20


async def test_no_request_fails_in_a_rolling_restart(fleet_plan: FleetPlan) -> None:
    # Clients' load balancer has another gateway to turn to, as gateways have another scheduler.
    plan = replace(fleet_plan, num_gateways=2, num_schedulers=2)
    specs = draw_specs(24, SEED, longest=160)
    async with running_fleet(plan) as fleet:
        load, restart = Load(fleet, NUM_STREAMS), RollingRestart(fleet)
        try:
            twins = make_twins(await load.run_all([spec.plainly() for spec in specs]))
            restarting = asyncio.create_task(restart.run())
            outcomes = await load.run_until(itertools.cycle(specs), restarting.done)
            await restarting
        finally:
            await load.close()
        await fleet.wait_idle(30.0)
        verdict = judge(outcomes, twins, gateway_downs=())
        print(f"\nseed {SEED}: {verdict.num_streams} streams while {restart.order} restarted")
        print(*verdict.violations, sep="\n")
        assert restart.order == list(fleet.processes)
        assert all(process.exits == [0] for process in fleet.processes.values())
        assert verdict.num_identical == verdict.num_streams >= NUM_STREAMS
        assert not verdict.violations
        assert not complaints(fleet)
