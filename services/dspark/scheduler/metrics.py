"""Metrics of the scheduler: requests, tokens, sources, and the steps of each of its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dspark.metrics import process
from dspark.metrics.distribution import Distribution
from dspark.metrics.families import Catalogue, Family
from dspark.sampling import FinishReason
from dspark.scheduler.drafting_books import Fallback
from dspark.scheduler.fairness import class_metrics
from dspark.scheduler.moves import MoveReason, MoveWay
from dspark.scheduler.scheduler import Scheduler
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_view import view_of

SERVICE = "scheduler"
ENGINE = "0"
FAMILIES = Catalogue([process.FAMILIES, class_metrics.FAMILIES])
_OWN = FAMILIES.prefixed("dspark_scheduler_")
_WORKER = ("worker",)
_SOURCE = ("source",)

# Requests and tokens.
REQUESTS = _OWN.counter("requests", "Ended requests by reason.", ("finished_reason",))
STEPS_TOTAL = _OWN.counter("steps", "Steps whose outcome was applied.")
PREEMPTIONS = _OWN.counter("preemptions", "Requests that gave up their KV blocks.")
GENERATION_TOKENS = _OWN.counter("generation_tokens", "Committed tokens.")
PROMPT_TOKENS = _OWN.counter("prompt_tokens", "Prompt tokens of finished prefills.")
CACHED_TOKENS = _OWN.counter("cached_tokens", "Prompt tokens found in the prefix cache.")
DISCARDED_TOKENS = _OWN.counter(
    "discarded_tokens", "Tokens that a verifier committed for a request that had ended or moved."
)
# Speculation.
VERIFY_ROUNDS = _OWN.counter("verify_rounds", "Verify passes that committed.")
DRAFTED_TOKENS = _OWN.counter("drafted_tokens", "Verified nodes.")
ACCEPTED_TOKENS = _OWN.counter("accepted_tokens", "Accepted nodes.")
SOURCE_PROPOSED = _OWN.counter(
    "source_proposed_tokens", "Nodes that came from candidates.", _SOURCE
)
SOURCE_DRAFTED = _OWN.counter("source_drafted_tokens", "Verified nodes by source.", _SOURCE)
SOURCE_ACCEPTED = _OWN.counter("source_accepted_tokens", "Accepted nodes by source.", _SOURCE)
SOURCE_UNIQUE = _OWN.counter(
    "source_unique_tokens", "Accepted nodes that no other source proposed.", _SOURCE
)
SOURCE_SECONDS = _OWN.counter("source_seconds", "Time that candidates spent on a source.", _SOURCE)
SOURCE_MUTES = _OWN.counter(
    "source_mutes", "Times that a request stopped asking a source that was never right.", _SOURCE
)
FALLBACKS = _OWN.counter(
    "fallbacks", "Steps with decoding requests that had no candidates, by reason.", ("reason",)
)
MOVES = _OWN.counter(
    "moves",
    "Requests that went on at another verifier: why, and whether their K/V was shipped there.",
    ("reason", "way"),
)
# Workers.
RUNNING = _OWN.gauge("requests_running", "Requests on the verifier.", _WORKER)
WAITING = _OWN.gauge("requests_waiting", "Requests not on the verifier.", _WORKER)
KV_BLOCKS_FREE = _OWN.gauge("kv_blocks_free", "KV blocks that can be allocated.", _WORKER)
KV_BLOCKS = _OWN.gauge("kv_blocks", "KV blocks of the pool.", _WORKER)
WAVES = _OWN.gauge(
    "waves", "Waves in which the verifier's requests take turns, by the last look.", _WORKER
)
SERVING = _OWN.gauge("worker_serving", "1 while the verifier answers and steps end.", _WORKER)
LEAVING = _OWN.gauge(
    "worker_leaving",
    "1 while the verifier gets no new requests, since it is to run empty.",
    _WORKER,
)
BACKLOG = _OWN.gauge(
    "worker_backlog_seconds",
    "Expected time until all requests of the verifier have ended.",
    _WORKER,
)
PRICE = _OWN.gauge(
    "price_tokens_per_ms", "Tokens a millisecond that candidates had to be worth last.", _WORKER
)
CALIBRATION_ERROR = _OWN.gauge(
    "calibration_error",
    "Expected calibration error of predicted acceptance over the last few thousand nodes of a "
    "source, 0 to 1.",
    ("worker", "source"),
)
WORKER_STEPS = _OWN.counter("worker_steps", "Finished steps.", _WORKER)
REPLAYS = _OWN.counter("step_replays", "Steps that were sent again to be answered.", _WORKER)
FAILED_STEPS = _OWN.counter(
    "step_failures", "Steps that the verifier refused or that could not be applied.", _WORKER
)
LOSSES = _OWN.counter("worker_losses", "Times that the verifier was given up.", _WORKER)
RESULTS = _OWN.counter(
    "results", "Results of work on a request, by what became of it.", ("worker", "status")
)
CANDIDATES_TURNS = _OWN.counter(
    "candidates_turns", "Times that a worker turned to another candidates service.", _WORKER
)
CANDIDATES_FAILURES = _OWN.counter(
    "candidates_failures", "Calls to candidates that failed or came too late.", _WORKER
)
STEP_SECONDS = _OWN.histogram(
    "step_seconds",
    "Parts of a step: propose waits for candidates, verify is the call to the verifier, forward "
    "the model in it, ahead the part of that which was over before, overhead all but the rest.",
    ("worker", "part"),
)
STEP_REQUESTS = _OWN.histogram("step_requests", "Requests of a step.", _WORKER)
STEP_ROWS = _OWN.histogram("step_rows", "Rows of a forward pass.", _WORKER)
TREE_NODES = _OWN.histogram("tree_nodes", "Nodes of each tree that was verified.", _WORKER)
ITERATION_TOKENS = FAMILIES.histogram(
    "vllm:iteration_tokens_total",
    "Prompt rows computed and tokens committed in a step.",
    ("model_name", "engine"),
)
BREAKER_STATE = FAMILIES.gauge(
    "dspark_breaker_state",
    "0 closed, 1 open (no calls), 2 half-open (on trial).",
    ("breaker", "worker"),
)


def metrics_registry(scheduler: Scheduler) -> CollectorRegistry:
    """All metrics of a service with this scheduler."""
    return process.service_registry(SERVICE, lambda: collect(scheduler))


def collect(scheduler: Scheduler) -> Iterable[Metric]:
    workers = scheduler.pool.workers
    yield from _totals(scheduler.totals)
    yield from class_metrics.collect(scheduler.totals.classes)
    yield from _speculation(scheduler.totals)
    yield from _placement(scheduler)
    yield from _gauges(workers)
    yield from _counters(workers)
    yield from _distributions(workers)
    tokens = scheduler.totals.iteration_tokens
    models = [w.verifier.info.model_id for w in workers if w.verifier.is_known]
    yield ITERATION_TOKENS.distributions(((model, ENGINE), tokens) for model in models[:1])


def _totals(totals: Totals) -> Iterable[Metric]:
    finished = dict(totals.finished)
    yield REQUESTS.many(((r.value,), finished.get(r, 0)) for r in FinishReason)
    for family, value in (
        (STEPS_TOTAL, totals.num_steps),
        (PREEMPTIONS, totals.num_preemptions),
        (GENERATION_TOKENS, totals.generation_tokens),
        (PROMPT_TOKENS, totals.prompt_tokens),
        (CACHED_TOKENS, totals.cached_tokens),
        (DISCARDED_TOKENS, totals.num_discarded_tokens),
        (VERIFY_ROUNDS, totals.speculation.rounds),
        (DRAFTED_TOKENS, totals.speculation.drafted),
        (ACCEPTED_TOKENS, totals.speculation.accepted),
    ):
        yield family.one(value)


def _speculation(totals: Totals) -> Iterable[Metric]:
    counts, drafting = dict(totals.speculation.sources), totals.drafting
    seconds = {name: ns / 1e9 for name, ns in dict(drafting.source_ns).items()}
    for family, by_source in (
        (SOURCE_PROPOSED, drafting.proposed.by_source()),
        (SOURCE_DRAFTED, {name: count.drafted for name, count in counts.items()}),
        (SOURCE_ACCEPTED, {name: count.accepted for name, count in counts.items()}),
        (SOURCE_UNIQUE, totals.accepted.sources.by_only_source()),
        (SOURCE_SECONDS, seconds),
        (SOURCE_MUTES, dict(drafting.mutes)),
    ):
        yield family.many(((name,), value) for name, value in sorted(by_source.items()))
    fallbacks = dict(drafting.fallbacks)
    yield FALLBACKS.many(((r.value,), fallbacks.get(r, 0)) for r in Fallback)


def _placement(scheduler: Scheduler) -> Iterable[Metric]:
    pool, books = scheduler.pool, scheduler.books
    moves = dict(books.moves)
    yield MOVES.many(
        ((reason.value, way.value), moves.get((reason, way), 0))
        for reason in MoveReason
        for way in MoveWay
    )
    yield LEAVING.many(((w.name,), pool.is_leaving(w)) for w in pool.workers)
    known = [(w.name, view_of(w, books.outputs)) for w in pool.workers if w.verifier.is_known]
    yield BACKLOG.many(((name,), view.backlog_ms / 1e3) for name, view in known)


def _gauges(workers: Iterable[Worker]) -> Iterable[Metric]:
    known = [(w.name, w.knowledge) for w in workers if w.knowledge is not None]
    yield RUNNING.many(((w.name,), len(w.live.running)) for w in workers)
    yield WAITING.many(((w.name,), len(w.live.waiting)) for w in workers)
    yield KV_BLOCKS_FREE.many(((w.name,), w.num_free_blocks) for w in workers)
    yield KV_BLOCKS.many(((w.name,), w.num_blocks) for w in workers)
    yield WAVES.many(((w.name,), w.waves.count) for w in workers if w.waves is not None)
    yield SERVING.many(((w.name,), w.is_serving) for w in workers)
    yield PRICE.many(((name,), k.policy.price) for name, k in known)
    yield CALIBRATION_ERROR.many(
        ((name, source), error.value)
        for name, k in known
        for source, error in sorted(dict(k.calibration.errors).items())
    )
    linked = [(w.name, w.candidates) for w in workers if w.candidates is not None]
    yield BREAKER_STATE.many((("candidates", name), c.breaker_state) for name, c in linked)
    yield CANDIDATES_FAILURES.many(((name,), c.num_failures) for name, c in linked)
    yield CANDIDATES_TURNS.many(((name,), c.num_turns) for name, c in linked)


def _counters(workers: Iterable[Worker]) -> Iterable[Metric]:
    yield WORKER_STEPS.many(((w.name,), w.steps.num_steps) for w in workers)
    yield REPLAYS.many(((w.name,), w.verifier.num_replays) for w in workers)
    yield FAILED_STEPS.many(((w.name,), w.steps.num_failures) for w in workers)
    yield LOSSES.many(((w.name,), w.steps.num_losses) for w in workers)
    yield RESULTS.many(
        ((w.name, status.name.lower()), count)
        for w in workers
        for status, count in w.steps.results.by_status.items()
    )


def _distributions(workers: Iterable[Worker]) -> Iterable[Metric]:
    yield STEP_SECONDS.distributions(
        ((w.name, part), times)
        for w in workers
        for part, times in (
            ("propose", w.steps.propose_s),
            ("verify", w.steps.verify_s),
            ("forward", w.steps.forward_s),
            ("ahead", w.steps.ahead_s),
            ("overhead", w.steps.overhead_s),
        )
    )
    of_steps: tuple[tuple[Family, Callable[[StepBooks], Distribution]], ...] = (
        (STEP_REQUESTS, lambda steps: steps.num_requests),
        (STEP_ROWS, lambda steps: steps.num_rows),
        (TREE_NODES, lambda steps: steps.tree_nodes),
    )
    for family, distribution in of_steps:
        yield family.distributions(((w.name,), distribution(w.steps)) for w in workers)
