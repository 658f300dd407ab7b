"""What the candidates service shows of its sequences, sources and store."""

from __future__ import annotations

from prometheus_client import generate_latest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.metrics import metrics_registry
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.sequence_table import SequenceTable
from dspark.proposal import CandidatesUpdate, ProposeItem, SequenceUpdate, Successors
from harness.scripted_sources import CrashingSource


def shown(proposer: Proposer) -> dict[str, float]:
    lines = generate_latest(metrics_registry(proposer)).decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


async def test_calls_sources_and_state_are_shown() -> None:
    config = CandidatesConfig(propose_deadline_ms=5000.0)
    proposer = Proposer(build_sources(config), config)
    await proposer.start()
    update = CandidatesUpdate(
        (SequenceUpdate("r", 1, 0, (1, 2, 3, 1, 2), 5),), (Successors((2,), (3, 4)),)
    )
    items = [ProposeItem("r", 1, 5, 8, 4), ProposeItem("unknown", 1, 5, 8, 4)]
    outcome = await proposer.propose(update, items)
    await proposer.close()
    metrics = shown(proposer)
    assert metrics["dspark_candidates_propose_seconds_count"] == 1
    assert metrics["dspark_candidates_propose_items_sum"] == 2
    assert metrics["dspark_candidates_unknown_items_total"] == 1
    assert metrics["dspark_candidates_sequences"] == 1
    assert metrics['dspark_candidates_source_rounds_total{source="suffix"}'] == 1
    assert metrics['dspark_candidates_source_nodes_total{source="recycle"}'] >= 2
    assert metrics['dspark_candidates_source_entries{source="suffix"}'] == 5
    assert metrics['dspark_candidates_source_entries{source="recycle"}'] == 3
    seconds = sum(v for k, v in metrics.items() if "source_seconds_total" in k)
    assert abs(seconds - sum(outcome.source_costs_ns.values()) / 1e9) < 1e-9


async def test_a_broken_source_shows_its_troubles() -> None:
    config = CandidatesConfig(propose_deadline_ms=5000.0, max_source_failures=2)
    source = CrashingSource(healthy_calls=0)
    proposer = Proposer([source], config)
    update = CandidatesUpdate((SequenceUpdate("r", 1, 0, (1, 2), 2),))
    for _ in range(3):
        await proposer.propose(update, [ProposeItem("r", 1, 2, 8, 4)])
    metrics = shown(proposer)
    name = f'source="{source.name}"'
    raised = proposer.runners[0].failures["raised"]
    assert raised >= 2
    assert metrics[f'dspark_candidates_source_troubles_total{{reason="raised",{name}}}'] == raised
    assert metrics[f'dspark_candidates_source_troubles_total{{reason="late",{name}}}'] == 0
    assert metrics[f"dspark_candidates_source_muted{{{name}}}"] == 1


def test_forgotten_sequences_are_counted_by_why() -> None:
    now = 0.0
    table = SequenceTable(
        lambda *_: None, lambda *_: None, lease_s=10.0, max_sequences=2, clock=lambda: now
    )
    for request_id in ("a", "b", "c"):
        table.apply(SequenceUpdate(request_id, 1, 0, (1,), 1))
    assert (table.num_evicted, table.num_reclaimed) == (1, 0)
    now = 11.0
    table.reclaim()
    assert (table.num_evicted, table.num_reclaimed, len(table)) == (1, 2, 0)
