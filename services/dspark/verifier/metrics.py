"""Metrics of the verifier: its steps, its sequences and its KV pool."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dspark.metrics import process
from dspark.metrics.families import Catalogue
from dspark.verifier.engine import Engine
from dspark.verifier.servicer import VerifierServicer
from dspark.verifier.step_books import StepBooks
from dspark.verifier.structure.compiler import Structures

SERVICE = "verifier"
FAMILIES = Catalogue([process.FAMILIES])
_OWN = FAMILIES.prefixed("dspark_verifier_")

READY = _OWN.gauge("ready", "1 once the model is loaded.")
RUNNING_SECONDS = _OWN.gauge("step_running_seconds", "How long the present step has been running.")
QUEUE_SECONDS = _OWN.histogram("queue_seconds", "Time that a step waited for the engine.")
STEP_SECONDS = _OWN.histogram("step_seconds", "Time of a step on the engine.")
FORWARD_SECONDS = _OWN.histogram("forward_seconds", "Time of a forward pass.")
STEP_ROWS = _OWN.histogram("step_rows", "Rows of a forward pass.")
STEP_REQUESTS = _OWN.histogram("step_requests", "Sequences of a step.")
RESULTS = _OWN.counter("results", "Results of work by what became of it.", ("status",))
COMMITTED_TOKENS = _OWN.counter("committed_tokens", "Tokens that were committed.")
VERIFIED_NODES = _OWN.counter("verified_nodes", "Nodes of trees that were computed.")
ACCEPTED_NODES = _OWN.counter("accepted_nodes", "Nodes that were accepted.")
DROPPED_TREES = _OWN.counter(
    "dropped_trees", "Trees that were malformed, so that they were ignored."
)
FAILED_STEPS = _OWN.counter("step_failures", "Steps that failed by a bug or a broken device.")
REPEATED_STEPS = _OWN.counter(
    "repeated_steps", "Steps that were asked for again; each is done once."
)
AHEAD_ROWS = _OWN.counter(
    "ahead_rows",
    "Rows that were computed ahead of their step, by what it did: used or dropped them.",
    ("outcome",),
)
PRUNED_ROWS = _OWN.counter("pruned_rows", "Rows that left their pass before its last layer.")
PRUNING_AUDITED = _OWN.counter(
    "pruning_audited_tokens", "Accepted nodes of passes that were audited instead of pruned."
)
PRUNING_LOST = _OWN.counter(
    "pruning_lost_tokens", "Those of the audited nodes that pruning would have lost."
)
GRAMMARS = _OWN.counter(
    "grammars",
    "Grammars that admitted sequences needed, by where they came from: the cache or the compiler.",
    ("origin",),
)
CACHED_GRAMMARS = _OWN.gauge("cached_grammars", "Compiled grammars that are kept.")
GRAMMAR_SECONDS = _OWN.histogram("grammar_compile_seconds", "Time to compile a grammar.")
FORBIDDEN_NODES = _OWN.counter(
    "forbidden_nodes", "Nodes of trees that were left out because a grammar forbids them."
)
FORCED_NODES = _OWN.counter("forced_nodes", "Nodes that grammars added to trees.")
ACCEPTED_FORCED = _OWN.counter(
    "accepted_forced_nodes", "Those of the forced nodes that were accepted."
)
# Only known once the model is loaded.
SEQUENCES = _OWN.gauge("sequences", "Sequences held.")
RECLAIMS = _OWN.counter("lease_reclaims", "Sequences that were dropped because no step named them.")
KV_BLOCKS = _OWN.gauge(
    "kv_blocks",
    "KV blocks by state: in_use, cached (content kept for reuse, allocatable) or free.",
    ("state",),
)
PREFIX_QUERIES = _OWN.counter("prefix_cache_queries", "Tokens looked up in the prefix cache.")
PREFIX_HITS = _OWN.counter("prefix_cache_hits", "Tokens found in the prefix cache.")
PREFIX_BLOCKS = _OWN.gauge("prefix_cache_blocks", "KV blocks whose content the prefix cache knows.")
EVICTIONS = _OWN.counter("prefix_cache_evictions", "Cached KV blocks that were given up.")
SHIPPED_BLOCKS = _OWN.counter(
    "shipped_blocks", "KV blocks that left for another verifier (out) or came (in).", ("direction",)
)


def metrics_registry(servicer: VerifierServicer) -> CollectorRegistry:
    """All metrics of the service, whether or not its model is loaded."""
    return process.service_registry(SERVICE, lambda: collect(servicer))


def collect(servicer: VerifierServicer) -> Iterable[Metric]:
    engine = servicer.engine
    yield READY.one(engine is not None)
    yield RUNNING_SECONDS.one(servicer.running_s)
    yield REPEATED_STEPS.one(servicer.num_repeats)
    yield from _steps(servicer.books)
    if engine is not None:
        yield from _engine(engine)


def _steps(books: StepBooks) -> Iterable[Metric]:
    for family, distribution in (
        (QUEUE_SECONDS, books.queue_s),
        (STEP_SECONDS, books.step_s),
        (FORWARD_SECONDS, books.forward_s),
        (STEP_ROWS, books.num_rows),
        (STEP_REQUESTS, books.num_requests),
    ):
        yield family.distributions([((), distribution)])
    yield RESULTS.many(
        ((status.name.lower(),), count) for status, count in books.results.by_status.items()
    )
    yield COMMITTED_TOKENS.one(books.num_committed_tokens)
    yield ACCEPTED_NODES.one(books.num_accepted_nodes)
    yield FORCED_NODES.one(books.num_forced_nodes)
    yield ACCEPTED_FORCED.one(books.num_accepted_forced)
    yield FAILED_STEPS.one(books.num_failures)


def _engine(engine: Engine) -> Iterable[Metric]:
    pool, sequences, planner = engine.pool, engine.sequences, engine.planner
    yield VERIFIED_NODES.one(planner.num_nodes)
    yield DROPPED_TREES.one(planner.num_dropped_trees)
    outcomes = {"used": engine.passes.num_used_rows, "dropped": engine.passes.num_dropped_rows}
    yield AHEAD_ROWS.many(((outcome,), count) for outcome, count in outcomes.items())
    books = engine.pruner.books
    yield PRUNED_ROWS.one(books.num_pruned_rows)
    yield PRUNING_AUDITED.one(books.num_audited_tokens)
    yield PRUNING_LOST.one(books.num_lost_tokens)
    yield from _structures(engine.structures)
    yield SEQUENCES.one(len(sequences))
    yield RECLAIMS.one(sequences.num_reclaimed)
    free, cached = pool.num_free, pool.num_cached
    states = {"in_use": pool.num_blocks - free - cached, "cached": cached, "free": free}
    yield KV_BLOCKS.many(((state,), count) for state, count in states.items())
    yield PREFIX_QUERIES.one(sequences.num_queried_tokens)
    yield PREFIX_HITS.one(sequences.num_hit_tokens)
    yield PREFIX_BLOCKS.one(len(engine.prefix_cache))
    yield EVICTIONS.one(pool.num_evictions)
    shipped = {"out": engine.exchange.num_exported, "in": engine.exchange.num_imported}
    yield SHIPPED_BLOCKS.many(((direction,), count) for direction, count in shipped.items())


def _structures(structures: Structures) -> Iterable[Metric]:
    books = structures.books
    origins = {"cache": books.num_hits, "compiler": books.num_misses}
    yield GRAMMARS.many(((origin,), count) for origin, count in origins.items())
    yield CACHED_GRAMMARS.one(structures.num_cached)
    yield GRAMMAR_SECONDS.distributions([((), books.compile_s)])
    yield FORBIDDEN_NODES.one(books.num_forbidden_nodes)
