"""From a worker and its requests to the frozen views on which placement and moves decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.pace import Speed
from dspark.scheduler.placement import Job, WorkerView
from dspark.scheduler.rebalance import Load, Movable
from dspark.scheduler.request import Request
from dspark.scheduler.worker import Worker

# Of long queues a sample is enough: the view is made for each new request.
MAX_SAMPLED = 128


def view_of(worker: Worker, outputs: OutputLengths) -> WorkerView:
    """The worker as it is now; one whose verifier has not answered has nothing to show."""
    requests = tuple(worker.live)
    sample = requests[:: len(requests) // MAX_SAMPLED + 1]
    scale = len(requests) / max(len(sample), 1)
    jobs = [job_of(request, outputs) for request in sample]
    num_output = sum(job.num_output for job in jobs) * scale
    num_known = sum(len(request.token_ids) for request in sample) * scale
    return WorkerView(
        worker.name,
        speed_of(worker, num_known / len(requests) if requests else 0.0),
        _num_slots(worker, num_known + num_output, len(requests)),
        len(requests),
        round(sum(job.num_uncached for job in jobs) * scale),
        num_output,
    )


def job_of(request: Request, outputs: OutputLengths) -> Job:
    """What is left of a request where it is."""
    num_uncached = request.num_pending_tokens
    if not request.is_running:
        num_uncached = max(num_uncached - request.num_likely_cached, 1)
    return Job(num_uncached, outputs.left(request.num_remaining_tokens))


def load_of(
    worker: Worker,
    outputs: OutputLengths,
    requests: Iterable[Request],
    cached: Mapping[Request, dict[str, int]],
    *,
    takes: bool,
) -> Load:
    """The worker with those of its requests that may move; ``cached`` as in Movable."""
    movable = (_movable(request, outputs, cached.get(request, {})) for request in requests)
    view = view_of(worker, outputs)
    return Load(view, worker.arithmetic, tuple(movable), takes, worker.max_len)


def _movable(request: Request, outputs: OutputLengths, cached: dict[str, int]) -> Movable:
    return Movable(
        request.request_id,
        job_of(request, outputs),
        len(request.token_ids),
        request.is_running,
        request.num_moves,
        request.max_len,
        cached,
    )


def speed_of(worker: Worker, context: float = 0.0) -> Speed:
    """How fast it is where its requests have so many tokens."""
    costs = worker.knowledge.costs if worker.knowledge is not None else None
    max_rows = worker.batcher.max_rows if worker.batcher is not None else 1
    pass_ms = None if costs is None else costs.at(context).ms
    num_waves = worker.waves.count if worker.waves is not None else 1
    return worker.steps.pace.speed(max_rows, pass_ms, num_waves)


def _num_slots(worker: Worker, num_tokens: float, num_requests: int) -> int:
    """How many requests of the usual length are on it at once, by its limit and its KV pool."""
    batcher = worker.batcher
    if batcher is None:
        return 1
    if not num_requests:
        return batcher.max_num_seqs
    fitting = batcher.num_blocks * batcher.block_size * num_requests / max(num_tokens, 1.0)
    return max(1, min(batcher.max_num_seqs, int(fitting)))
