"""Metrics of the candidates service: calls, sources, their state and their store."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dspark.candidates.proposer import Proposer
from dspark.candidates.source_runner import SourceRunner
from dspark.circuit_breaker import BreakerState
from dspark.metrics import process
from dspark.metrics.families import Catalogue

SERVICE = "candidates"
FAMILIES = Catalogue([process.FAMILIES])
_OWN = FAMILIES.prefixed("dspark_candidates_")

PROPOSE_SECONDS = _OWN.histogram("propose_seconds", "Time of a call for proposals.")
PROPOSE_ITEMS = _OWN.histogram("propose_items", "Requests in a call for proposals.")
UNKNOWN_ITEMS = _OWN.counter(
    "unknown_items", "Items that asked for a sequence, or a length of it, not known here."
)
SEQUENCES = _OWN.gauge("sequences", "Sequences held.")
RECLAIMS = _OWN.counter("lease_reclaims", "Sequences that were forgotten because nobody used them.")
EVICTIONS = _OWN.counter(
    "sequence_evictions", "Sequences that were forgotten because there were too many."
)
SOURCE_ROUNDS = _OWN.counter(
    "source_rounds", "Calls for which a source gave trees, in time or not.", ("source",)
)
SOURCE_NODES = _OWN.counter(
    "source_nodes", "Nodes that a source gave, before trees are merged.", ("source",)
)
SOURCE_SECONDS = _OWN.counter(
    "source_seconds", "Time from asking a source to its trees.", ("source",)
)
SOURCE_TROUBLES = _OWN.counter(
    "source_troubles", "What went wrong with a source, by reason.", ("source", "reason")
)
SOURCE_MUTED = _OWN.gauge(
    "source_muted", "1 while a source is not asked because it kept failing.", ("source",)
)
SOURCE_ENTRIES = _OWN.gauge(
    "source_entries",
    "Size of a source's state in this process: tokens, contexts or table rows.",
    ("source",),
)
STORE_SECONDS = _OWN.histogram(
    "store_seconds", "Time of operations on Redis, failed ones too.", ("operation",)
)
BREAKER_STATE = FAMILIES.gauge(
    "dspark_breaker_state", "0 closed, 1 open (no calls), 2 half-open (on trial).", ("breaker",)
)
# Counters that start at 0, so that their first increase shows.
_NO_FAILURES = {"raised": 0, "late": 0, "garbage": 0}


def metrics_registry(proposer: Proposer) -> CollectorRegistry:
    """All metrics of a service with this proposer."""
    return process.service_registry(SERVICE, lambda: collect(proposer))


def collect(proposer: Proposer) -> Iterable[Metric]:
    books, sequences, runners = proposer.books, proposer.sequences, proposer.runners
    yield PROPOSE_SECONDS.distributions([((), books.seconds)])
    yield PROPOSE_ITEMS.distributions([((), books.num_items)])
    yield UNKNOWN_ITEMS.one(books.num_unknown_items)
    yield SEQUENCES.one(len(sequences))
    yield RECLAIMS.one(sequences.num_reclaimed)
    yield EVICTIONS.one(sequences.num_evicted)
    yield SOURCE_ROUNDS.many(((r.name,), r.num_rounds) for r in runners)
    yield SOURCE_NODES.many(((r.name,), r.num_nodes) for r in runners)
    yield SOURCE_SECONDS.many(((r.name,), r.total_ns / 1e9) for r in runners)
    yield SOURCE_MUTED.many(((r.name,), r.is_muted) for r in runners)
    yield from _vitals(runners)


def _vitals(runners: Iterable[SourceRunner]) -> Iterable[Metric]:
    troubles: dict[tuple[str, str], int] = {}
    breakers: dict[str, BreakerState] = {}
    vitals = {runner: runner.source.vitals() for runner in runners}
    for runner, vital in vitals.items():
        for reason, count in {**_NO_FAILURES, **runner.failures, **vital.troubles}.items():
            troubles[runner.name, reason] = count
        breakers.update(vital.breakers)
    yield SOURCE_TROUBLES.many(troubles.items())
    yield SOURCE_ENTRIES.many(((r.name,), v.num_entries) for r, v in vitals.items())
    yield BREAKER_STATE.many(((name,), state) for name, state in breakers.items())
    operations = [item for vital in vitals.values() for item in vital.seconds.items()]
    yield STORE_SECONDS.distributions(((name,), times) for name, times in operations)
