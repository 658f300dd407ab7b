"""Two waves in virtual time: one is in the verifier while the other drafts and plans."""

from __future__ import annotations

import asyncio

import pytest

from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.processor import Processor, SchedulerModel
from dspark.cli.simulate.results import Run, Targets, report
from dspark.cli.simulate.simulated_verifier import SimulatedVerifier
from dspark.cli.simulate.source_model import SourceModel
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.cli.simulate.virtual_time import run_virtual
from dspark.clock import monotonic
from dspark.step import StepPlan, VerifyCost
from harness.simulations import closed, simulate, system

# A millisecond a row, and as long for one row as for sixteen.
STEEP = (VerifyCost(1, 1.0), VerifyCost(64, 64.0))
FLAT = (VerifyCost(1, 16.0), VerifyCost(16, 16.0), VerifyCost(64, 64.0))
SIXTEEN = closed(16, 16, prompt=1, output=200)


def tokens_per_s(run: Run) -> float:
    assert not any(each.error for each in run.outcomes)
    figure: float = report(run, Targets(500.0, 20.0))["tokens_per_s"]
    return figure


def plain(costs: tuple[VerifyCost, ...] = STEEP, device: str = "simulated") -> System:
    """Nobody is asked; 14 ms of a step are beside its pass, all of them outside of the verifier."""
    return system(None, verify_costs=costs, call_ms=14.0, engine_share=0.0, device=device)


def test_steps_of_two_waves_take_turns_in_the_verifier() -> None:
    async def main() -> list[tuple[int, float]]:
        model = VerifierModel(100, verify_costs=STEEP, call_ms=4.0, engine_share=0.5)
        verifier = SimulatedVerifier(model, Processor(SchedulerModel()), 0)
        steps = [verifier.step(StepPlan(name, 1)) for name in ("a", "b")]
        outcomes = await asyncio.gather(*steps)
        return [(outcome.queue_ns, monotonic()) for outcome in outcomes]

    (first, _), (second, ended) = run_virtual(main())
    assert (first, second) == (0, 2_000_000)
    assert ended == pytest.approx(0.006)


@pytest.mark.parametrize(("waves", "round_ms"), [("1", 16 + 14), ("2", 8 + 14)])
def test_a_round_takes_what_the_arithmetic_says(waves: str, round_ms: float) -> None:
    run = simulate(SIXTEEN, plain(), waves=waves)
    assert tokens_per_s(run) == pytest.approx(16e3 / round_ms, rel=0.05)


def test_a_busy_verifier_is_never_left_waiting_by_two_waves() -> None:
    of = system(None, verify_costs=STEEP, call_ms=6.0, engine_share=0.0)
    run = simulate(SIXTEEN, of, waves="2")
    assert tokens_per_s(run) == pytest.approx(1e3, rel=0.05)


def test_auto_finds_the_second_wave_where_it_pays() -> None:
    load = closed(16, 16, prompt=1, output=600)
    one, two, auto = (
        tokens_per_s(simulate(load, plain(), waves=each)) for each in ("1", "2", "auto")
    )
    assert two > 1.3 * one
    assert auto > 0.93 * two


def test_auto_stays_with_one_wave_where_two_do_not_pay() -> None:
    one, two, auto = (
        tokens_per_s(simulate(SIXTEEN, plain(FLAT), waves=each)) for each in ("1", "2", "auto")
    )
    assert two < one
    assert auto == one


def test_auto_is_one_wave_where_the_model_runs_on_the_processors() -> None:
    one, auto = (
        tokens_per_s(simulate(SIXTEEN, plain(device="cpu"), waves=each)) for each in ("1", "auto")
    )
    assert auto == one


def test_drafting_pays_more_where_another_wave_covers_it() -> None:
    """A draft takes as long as a pass: one wave would lose by it what it brings."""
    draft = CandidatesModel(call_ms=12.0, sources=(SourceModel("a", (0.6,), max_depth=3),))
    of = system(draft, verify_costs=(VerifyCost(1, 12.0), VerifyCost(64, 16.0)))
    runs = [simulate(SIXTEEN, of, "economic", waves=each) for each in ("1", "2")]
    accepted = [sum(each.speculation.accepted for each in run.outcomes) for run in runs]
    assert accepted[1] > accepted[0]


@pytest.mark.parametrize("policy", ["off", "fixed", "economic"])
def test_two_waves_with_few_blocks_end_all_requests(policy: str) -> None:
    of = system(num_blocks=20, call_ms=5.0)
    run = simulate(closed(30, 12, prompt=40, output=60), of, policy, waves="2")
    assert [each.num_tokens for each in run.outcomes] == [60] * 30
    assert not any(each.error for each in run.outcomes)


@pytest.mark.parametrize("waves", ["2", "auto"])
def test_the_same_seed_gives_the_same_run_in_waves(waves: str) -> None:
    first, again = (
        simulate(closed(20, 8), system(jitter=0.1, call_ms=8.0), "economic", waves=waves)
        for _ in range(2)
    )
    assert [each.chunks for each in first.outcomes] == [each.chunks for each in again.outcomes]
