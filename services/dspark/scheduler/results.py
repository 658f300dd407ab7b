"""Applies the outcome of a step to its requests, each result at most once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dspark.errors import BackendUnavailable, InvalidArgument
from dspark.features import Features
from dspark.generation import TokenChunk
from dspark.scheduler.forced_nodes import count_forced
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals, count_round
from dspark.step import SequenceWork, StepOutcome, WorkResult, WorkStatus
from dspark.token_tree import TokenTree

# A verifier that loses a sequence this often without a token in between will not keep it.
MAX_SETBACKS = 100

Learner = Callable[[Request, TokenTree, WorkResult], None]
FeatureKeeper = Callable[[Request, Features, int], None]


@dataclass(slots=True)
class Applied:
    """What a step did, for the streams to be told of once the step's own time is known."""

    num_done: int = 0
    # requests for which this was a decode step
    decoded: list[Request] = field(default_factory=list)
    chunks: dict[Request, TokenChunk] = field(default_factory=dict)
    ends: dict[Request, WorkResult] = field(default_factory=dict)

    def push_chunks(self) -> None:
        for request, chunk in self.chunks.items():
            request.stream.push(chunk)


class ResultApplier:
    """Commits, finishes, preempts. A result of another incarnation or length is ignored."""

    def __init__(
        self,
        live: LiveRequests,
        totals: Totals,
        learn: Learner,
        arithmetic: str = "",
        keep_features: FeatureKeeper = lambda request, features, num_tokens: None,
    ) -> None:
        """``arithmetic`` is the verifier's, which streams begin with.

        ``keep_features(request, features, num_tokens)`` gets what a step gave of ``num_tokens``
        that were wanted.
        """
        self._live = live
        self._totals = totals
        self._learn = learn
        self._arithmetic = arithmetic
        self._keep_features = keep_features

    def apply(
        self, work: Sequence[SequenceWork], requests: Sequence[Request], outcome: StepOutcome
    ) -> Applied:
        """``requests`` has the request of each work entry."""
        applied = Applied()
        starved = False
        results = {(result.request_id, result.epoch): result for result in outcome.results}
        self._totals.num_steps += 1
        for entry, request in zip(work, requests, strict=True):
            result = results.get((entry.request_id, entry.epoch))
            if result is None:
                continue
            if not request.is_at(entry.epoch, entry.base_len):
                self._totals.num_discarded_tokens += len(result.committed_token_ids)
                continue
            self._note_cached(request, outcome)
            if result.status is WorkStatus.DONE:
                self._done(request, entry, result, applied)
            elif result.status is WorkStatus.NO_BLOCKS:
                starved = True
            else:
                self._setback(request, result.known_epoch)
        if starved:
            self._make_room()
        return applied

    def finish(self, applied: Applied) -> None:
        """End what has ended; chunks of the others remain to be pushed."""
        for request, result in applied.ends.items():
            chunk = applied.chunks.pop(request, None)
            if chunk is not None:
                request.stream.push(chunk)
            assert result.finish_reason is not None
            if result.no_token_left:
                problem = f"its options leave no token for place {len(request.token_ids)}"
                self._live.fail(request, InvalidArgument("sampling", problem))
            else:
                self._live.complete(request, result.finish_reason, result.stop_token_id)

    def _done(
        self, request: Request, entry: SequenceWork, result: WorkResult, applied: Applied
    ) -> None:
        applied.num_done += 1
        if request.num_pending_tokens == 1:
            applied.decoded.append(request)
        request.num_computed_tokens = result.num_computed_tokens
        if result.features is not None:
            self._keep_features(request, result.features, entry.num_features)
        if result.committed_token_ids:
            self._commit(request, entry.tree, result, applied)
        if result.finish_reason is not None:
            applied.ends[request] = result

    def _commit(
        self, request: Request, tree: TokenTree, result: WorkResult, applied: Applied
    ) -> None:
        committed = result.committed_token_ids
        is_first = not request.stats.rounds
        if is_first:
            self._totals.prompt_tokens += request.num_prompt_tokens
        request.commit(committed)
        self._live.waiting.correct(request)
        self._totals.generation_tokens += len(committed)
        count_round((request.stats, self._totals.speculation), tree, result.accepted_nodes)
        self._totals.accepted.add(tree, result.accepted_nodes, result.num_accepted_forced)
        for stats in (request.stats, self._totals.speculation):
            count_forced(stats, result)
        self._learn(request, tree, result)
        num_accepted = len(result.accepted_nodes) + result.num_accepted_forced
        num_accepted = min(num_accepted, len(committed))
        arithmetic = self._arithmetic if is_first else ""
        applied.chunks[request] = TokenChunk(
            committed, num_accepted, arithmetic, result.logprobs, result.prompt_logprobs
        )

    def _note_cached(self, request: Request, outcome: StepOutcome) -> None:
        cached = outcome.cached_tokens.get(request.request_id)
        if cached is not None and request.num_cached_tokens is None:
            request.num_cached_tokens = min(cached, request.num_prompt_tokens)
            self._totals.cached_tokens += request.num_cached_tokens
            self._live.waiting.correct(request)

    def _setback(self, request: Request, known_epoch: int = 0) -> None:
        """The verifier lost or contradicts the sequence: admit it anew as it is known here."""
        request.num_setbacks += 1
        if request.num_setbacks > MAX_SETBACKS:
            self._live.fail(request, BackendUnavailable("verifier", "cannot keep the request"))
        else:
            self._live.requeue(request, known_epoch)

    def _make_room(self) -> None:
        """The request that came last gives way, so the first one always goes on."""
        running = self._live.running
        if len(running) > 1:
            self._live.preempt_last()
        elif running:
            self._setback(running[0])
