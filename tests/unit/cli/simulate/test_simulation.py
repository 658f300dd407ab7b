"""The scheduler under simulated load: what must hold whatever the figures are."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.cli.simulate.calibration_record import read_record
from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.lengths import LogNormal, Uniform
from dspark.cli.simulate.load import Prefixes
from dspark.cli.simulate.processor import SchedulerModel
from dspark.cli.simulate.results import Run, Targets, duration_s, report
from dspark.cli.simulate.source_model import SourceModel
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.cli.simulate.workload import Arrival, Shape, closed_loop, open_loop
from dspark.scheduler.policy import POLICIES
from dspark.step import VerifyCost
from harness.simulations import COSTS, SOURCE, closed, poisson, sending, simulate, system

TARGETS = Targets(ttft_ms=500.0, tpot_ms=20.0)
ALL = tuple(POLICIES)
MIXED = Shape(LogNormal(40, 0.8), Uniform(1, 120), seed=5)


def figures(run: Run) -> dict:
    return report(run, TARGETS)


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("speeds", [(1.0,), (1.0, 0.25, 2.0)])
def test_every_request_ends_with_its_tokens(policy: str, speeds: tuple[float, ...]) -> None:
    arrivals = open_loop(MIXED, 80, rate=20.0)
    run = simulate(sending(arrivals), policy=policy, speeds=speeds)
    assert [each.error for each in run.outcomes] == [""] * 80
    assert [each.num_tokens for each in run.outcomes] == [a.output_tokens for a in arrivals]
    committed = sum(each.speculation.rounds + each.speculation.accepted for each in run.outcomes)
    assert committed == sum(a.output_tokens for a in arrivals)


@pytest.mark.parametrize("policy", ALL)
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    def once(seed: int) -> Run:
        load = sending(open_loop(MIXED, 40, rate=20.0))
        return simulate(load, system(jitter=0.1), policy, (1.0, 0.5), seed=seed)

    first, again, other = once(1), once(1), once(2)
    assert [each.chunks for each in first.outcomes] == [each.chunks for each in again.outcomes]
    assert figures(first) == figures(again)
    assert [each.chunks for each in first.outcomes] != [each.chunks for each in other.outcomes]


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_a_closed_loop_gives_its_batch_each_step(concurrency: int) -> None:
    """Prompts are as long as a step has rows in the same 10 ms, so every step takes those."""
    of = system(None, call_ms=2.0, call_ms_per_request=0.1)
    run = simulate(closed(concurrency, concurrency, prompt=1, output=200), of)
    step_ms = 10.0 + 2.0 + 0.1 * concurrency
    assert figures(run)["tokens_per_s"] == pytest.approx(1e3 * concurrency / step_ms, rel=0.01)


def test_two_workers_give_twice_as_much() -> None:
    one = figures(simulate(closed(64, 16), system(None)))
    two = figures(simulate(closed(128, 32), system(None), speeds=(1.0, 1.0)))
    assert two["tokens_per_s"] / one["tokens_per_s"] == pytest.approx(2.0, rel=0.05)


def test_one_processor_is_enough_for_few_workers_only() -> None:
    """Ten workers' steps need more of the scheduler than there is of it."""
    of = System(VerifierModel(4096, verify_costs=COSTS), SchedulerModel(step_ms=2.0))
    run = figures(simulate(closed(240, 80, output=80), of, speeds=(1.0,) * 10))
    assert run["scheduler_busy"] > 0.95
    # A step each 2 ms, whoever's it is.
    assert run["steps"] / run["seconds"] == pytest.approx(500.0, rel=0.05)


def test_the_queue_grows_above_capacity_and_not_below() -> None:
    """One worker of 16 gives 1,600 tokens a second: 40 requests of 40 tokens."""
    above = simulate(poisson(400, rate=80.0), system(None), max_num_seqs=16)
    below = simulate(poisson(400, rate=20.0), system(None), max_num_seqs=16)
    waited = above.samples.waiting
    assert waited[len(waited) // 4] < waited[len(waited) // 2]
    # When the last came, half of all were still there.
    assert max(waited) > 150
    assert max(below.samples.waiting) < 10
    assert figures(above)["ttft_ms"]["p99"] > 10 * figures(below)["ttft_ms"]["p99"]
    assert figures(above)["good_share"] < 0.5 < figures(below)["good_share"]


def test_beyond_the_queues_bound_requests_are_refused() -> None:
    run = simulate(poisson(200, rate=500.0), max_num_seqs=4, max_waiting=10)
    refused = [each for each in run.outcomes if each.error]
    assert {each.error for each in refused} == {"QUEUE_FULL"}
    assert figures(run)["refused"] == len(refused) > 100
    assert all(each.num_tokens == 40 for each in run.outcomes if not each.error)


def test_off_asks_nobody_and_the_others_do() -> None:
    asked = {name: figures(simulate(closed(8, 2), policy=name))["asked"] for name in ALL}
    assert asked.pop("off") == 0
    assert all(count > 0 for count in asked.values())


@pytest.mark.parametrize("policy", ALL)
def test_percentiles_are_in_order(policy: str) -> None:
    run = figures(simulate(sending(open_loop(MIXED, 60, rate=30.0)), policy=policy))
    for kind in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        assert 0 < run[kind]["p50"] <= run[kind]["p90"] <= run[kind]["p99"]


def test_acceptance_is_that_of_the_source() -> None:
    """Four guesses, each right 0.8 of the time: 1 + 0.8 + 0.64 + 0.512 + 0.4096 tokens a step."""
    run = figures(simulate(closed(4, 2, output=2000), policy="fixed", num_draft_tokens=4))
    assert run["acceptance_length"] == pytest.approx(3.3616, rel=0.03)


def test_economic_speculates_where_rows_are_free_and_stops_where_they_are_not() -> None:
    alone = figures(simulate(closed(8, 1, output=200), policy="economic"))
    assert alone["acceptance_length"] > 2.0
    # Each row beyond 16 costs half a millisecond, more than a guess that is right once in ten.
    poor = CandidatesModel(sources=(SourceModel("a", (0.1,), max_depth=4),))
    of = system(poor)
    plain = figures(simulate(closed(64, 32, output=100), of, "off"))
    busy = figures(simulate(closed(64, 32, output=100), of, "economic"))
    assert busy["acceptance_length"] < 1.05
    assert busy["tokens_per_s"] > 0.95 * plain["tokens_per_s"]


# Each row costs, as on processor cores: 14 ms and 1.2 for each row.
EACH_ROW = (VerifyCost(1, 15.2), VerifyCost(256, 321.2))


@pytest.mark.parametrize(("prompt", "output"), [(64, 64), (200, 64), (500, 200)])
@pytest.mark.parametrize("acceptance", [(0.8,), (0.6, 0.5)])
def test_beside_many_prompts_speculation_is_no_slower_than_none(
    prompt: int, output: int, acceptance: tuple[float, ...]
) -> None:
    """Who decodes faster than prompts are computed only has more places wait for prompts."""
    sources = (SourceModel("a", acceptance, max_depth=4),)
    guesses = CandidatesModel(call_ms=2.0, sources=sources)
    of = system(guesses, verify_costs=EACH_ROW, max_step_rows=256)
    load = closed(60, 16, prompt=prompt, output=output)
    off, economic = (figures(simulate(load, of, name)) for name in ("off", "economic"))
    assert economic["tokens_per_s"] > 0.97 * off["tokens_per_s"]


def test_calibration_sees_through_scores_that_promise_too_much() -> None:
    vain = SourceModel("a", (0.25,), max_depth=4, overconfidence=3.5)
    sober = SourceModel("a", (0.25,), max_depth=4)
    runs = [
        figures(
            simulate(closed(64, 32, output=100), system(CandidatesModel(sources=(s,))), "economic")
        )
        for s in (vain, sober)
    ]
    assert runs[0]["tokens_per_s"] == pytest.approx(runs[1]["tokens_per_s"], rel=0.05)


def test_without_room_requests_are_preempted_and_end_all_the_same() -> None:
    of = system(None, num_blocks=40)
    run = simulate(closed(30, 10, prompt=40, output=60), of)
    assert figures(run)["preemptions"] > 0
    assert all(each.num_tokens == 60 and not each.error for each in run.outcomes)


def test_shared_prefixes_save_rows() -> None:
    arrivals = closed_loop(Shape(Uniform(200, 200), Uniform(10, 10), 0), 40)
    alone = figures(simulate(sending(arrivals, 4, Prefixes())))
    shared = figures(simulate(sending(arrivals, 4, Prefixes(160, groups=2))))
    assert shared["seconds"] < 0.6 * alone["seconds"]


def test_the_record_of_a_run_predicts_other_loads(tmp_path: Path) -> None:
    """What the calls of one load took says how fast others are, without having seen them."""
    real = System(
        VerifierModel(4096, verify_costs=COSTS, call_ms=1.5, call_ms_per_request=0.1, jitter=0.05),
        SchedulerModel(0.5, 0.05),
        CandidatesModel(call_ms=1.0, call_ms_per_request=0.05, sources=(SOURCE,)),
    )
    path = tmp_path / "calls.jsonl"
    simulate(closed(24, 8, output=80), real, "fixed", record_calls=str(path))
    model = read_record(path)
    for concurrency in (1, 8, 32):
        for policy in ("off", "fixed"):
            load = closed(max(2 * concurrency, 8), concurrency, output=60)
            truth = figures(simulate(load, real, policy))["tokens_per_s"]
            found = figures(simulate(load, model, policy, seed=9))["tokens_per_s"]
            assert found == pytest.approx(truth, rel=0.08), (concurrency, policy)


def test_classes_and_tenants_of_a_trace_reach_the_scheduler() -> None:
    """Batch requests came first; the interactive ones among as many go before those that wait."""
    batch = [Arrival(16, 40, 0.001 * n, request_class="batch") for n in range(60)]
    soon = [Arrival(16, 40, 0.5 + 0.001 * n, request_class="interactive") for n in range(10)]
    run = simulate(sending([*batch, *soon]), system(None), max_num_seqs=8)
    groups = {group["class"]: group["ttft_ms"]["p50"] for group in figures(run)["groups"]}
    assert groups["interactive"] < 0.5 * groups["batch"]


def test_the_duration_is_from_the_first_request_to_the_last_end() -> None:
    run = simulate(poisson(5, rate=1.0))
    assert duration_s(run.outcomes) == max(o.ended_s for o in run.outcomes) - run.outcomes[0].sent_s
