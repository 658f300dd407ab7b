"""From running services to a simulation of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.simulate.calibration_record import read_record
from dspark.cli.simulate.known_systems import KNOWN_SYSTEMS
from dspark.cli.simulate.measured import measured_verifier
from dspark.cli.simulate.results import acceptance_length
from dspark.sampling import SamplingParams
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import LINEAR_COSTS, FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import Streamed, make_request, running_scheduler
from harness.scripted_drafters import KnownText
from harness.simulations import closed, simulate

MODEL = HashModel()
LIKE = KNOWN_SYSTEMS["h200-8b"]().verifier
NUM_REQUESTS = 4
LENGTH = 120
PROMPT = tuple(range(5))


async def recorded_run(path: Path) -> list[Streamed]:
    """Requests one after the other, with a drafter that is right as often as not."""
    params = [
        SamplingParams(temperature=0.9, seed=i, max_tokens=LENGTH, ignore_eos=True)
        for i in range(NUM_REQUESTS)
    ]
    texts = [MODEL.generate(PROMPT, each).token_ids for each in params]
    drafters = {
        f"q{i}": KnownText([*PROMPT, *text], MODEL.vocab_size).alternating
        for i, text in enumerate(texts)
    }
    verifying = FakeVerifier(forward_s=lambda rows: 0.01 + 0.0001 * rows)
    async with verifying as verifier, FakeCandidates(drafters) as candidates:
        async with running_scheduler(
            verifier.target, candidates.target, record_calls=str(path)
        ) as scheduler:
            requests = [make_request(f"q{i}", PROMPT, each) for i, each in enumerate(params)]
            return [await scheduler.client.generate(request) for request in requests]


async def test_a_running_scheduler_records_what_a_simulation_needs(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    streams = await recorded_run(path)
    system = read_record(path)
    assert {cost.rows for cost in system.verifier.verify_costs} == {r for r, _ in LINEAR_COSTS}
    assert system.candidates is not None and system.candidates.recorded is not None
    assert system.candidates.recorded.sources == ("scripted",)
    assert len(system.candidates.recorded.texts) == NUM_REQUESTS
    rounds = sum(each.speculation.rounds for each in streams)
    real = 1 + sum(each.speculation.accepted for each in streams) / rounds
    load = closed(NUM_REQUESTS, 1, prompt=len(PROMPT), output=LENGTH)
    run = await asyncio.to_thread(simulate, load, system, "fixed")
    assert real > 1.3
    assert acceptance_length(run.outcomes) == pytest.approx(real, rel=0.15)


async def test_the_table_of_a_running_verifier_is_taken_over() -> None:
    async with FakeVerifier() as verifier:
        model = await measured_verifier(verifier.target, LIKE)
    assert [(cost.rows, cost.milliseconds) for cost in model.verify_costs] == list(LINEAR_COSTS)
    assert model.roofline is None and model.call_ms == LIKE.call_ms
    assert model.num_blocks != LIKE.num_blocks


async def test_nobody_at_the_address_is_said() -> None:
    with pytest.raises(CliError, match=r"--measure 127\.0\.0\.1:1"):
        await measured_verifier("127.0.0.1:1", LIKE)
