"""From a batch and its drafts to the plan that the verifier gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.drafting import Drafting, Drafts
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish
from dspark.scheduler.forced_nodes import forced_limits
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.request import Request
from dspark.scheduler.step_trace import traceparents_of
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.waves import Wave
from dspark.step import SequenceAdmission, SequenceWork, StepPlan
from dspark.token_tree import TokenTree

# The features that a refused step asked for may be what is at fault: so many steps go without.
FEATURELESS_STEPS = 100


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A plan and the requests its work entries stand for."""

    plan: StepPlan
    requests: tuple[Request, ...]


class StepPlans:
    """The plans of one loop, numbered in turn."""

    def __init__(
        self,
        scheduler_id: str,
        live: LiveRequests,
        drafting: Drafting,
        verifier: VerifierLink,
        wave: Wave,
    ) -> None:
        """``scheduler_id`` is this loop's alone: the verifier answers the last step of each."""
        self.last_id = 0
        self._scheduler_id = scheduler_id
        self._live = live
        self._drafting = drafting
        self._verifier = verifier
        self._wave = wave
        self._featureless_until = 0

    def go_without_features(self) -> None:
        """The last step was refused."""
        self._featureless_until = self.last_id + FEATURELESS_STEPS

    def next(self, batch: Batch, drafts: Drafts) -> PlannedStep:
        """Takes the releases that are due along."""
        rows = batch.scheduled
        requests = tuple(r.request for r in rows)
        drafting = self._drafting
        self.last_id += 1
        wish = NO_FEATURES
        if self.last_id > self._featureless_until:
            wish = drafting.askings.feature_wish(requests)
        forced = {} if drafting.knowledge.policy.is_off else forced_limits(batch, rows, drafts)
        plan = StepPlan(
            scheduler_id=self._scheduler_id,
            step_id=self.last_id,
            releases=self._live.take_releases(),
            admissions=tuple(_admission(r.request) for r in rows if r.is_admission),
            work=tuple(
                _work(r, drafts.get(r.request), wish, forced.get(r.request, 0)) for r in rows
            ),
            top_k=drafting.top_k,
            traceparents=traceparents_of(requests),
            compute_ahead=not forced and self._expects_plain_step(rows, requests),
            feature_layers=wish.layers,
        )
        return PlannedStep(plan, requests)

    def _expects_plain_step(
        self, rows: Sequence[ScheduledRows], requests: Sequence[Request]
    ) -> bool:
        """Whether the next step is going to have the same requests, and nothing but their rows."""
        return (
            self._verifier.info.computes_ahead
            and not self._live.waiting
            and self._wave.is_alone
            and all(r.commits for r in rows)
            and self._drafting.askings.asks_nothing_next(requests)
        )


def _admission(request: Request) -> SequenceAdmission:
    return SequenceAdmission(
        request_id=request.request_id,
        epoch=request.epoch,
        token_ids=tuple(request.token_ids),
        num_prompt_tokens=request.num_prompt_tokens,
        sampling=request.spec.sampling,
        cache_salt=request.spec.cache_salt,
        use_prefix_cache=request.spec.use_prefix_cache,
    )


def _work(
    rows: ScheduledRows, tree: TokenTree | None, wish: FeatureWish, max_forced: int
) -> SequenceWork:
    return SequenceWork(
        request_id=rows.request.request_id,
        epoch=rows.request.epoch,
        base_len=len(rows.request.token_ids),
        max_pending_rows=rows.max_pending_rows,
        tree=tree or TokenTree(),
        num_features=wish.of(rows.request.spec.speculation),
        max_forced_nodes=max_forced,
    )
