"""Whom steps ask candidates for, and for how many: decided in the step, or ahead of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dspark.scheduler.batcher import Batch
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.draft_knowledge import DraftKnowledge, PresentStep
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish
from dspark.scheduler.foresight import Decision, Foresight, asks
from dspark.scheduler.policy.interface import Budget, StepContext
from dspark.scheduler.request import Request
from dspark.scheduler.wishes import Wish, Wishes

Asked: TypeAlias = dict[Request, tuple[Wish, Budget]]
"""The requests for which candidates are asked in one step."""


class Askings:
    """Those of one wave. ``overhead_ms`` is always that of a step that asks nobody."""

    def __init__(self, knowledge: DraftKnowledge, present: PresentStep) -> None:
        self._knowledge = knowledge
        self._present = present
        self._wishes = Wishes(knowledge, present)
        self._foresight = Foresight()

    def take(self, batch: Batch, overhead_ms: float) -> Asked | None:
        """Whom the present step asks for; None while nobody can be asked."""
        link, foreseen = self._knowledge.link, self._foresight.take(batch.decodes)
        if link is None or self._knowledge.info is None:
            return None
        if foreseen is not None and not asks(foreseen):
            return {}
        wishes = self._wishes.of(link, batch)
        if foreseen is None:
            budgets = self._budgets(wishes, batch, overhead_ms)
        else:
            budgets = [foreseen[wish.request].within(wish.view.max_nodes) for wish in wishes]
        pairs = zip(wishes, budgets, strict=True)
        return {wish.request: (wish, budget) for wish, budget in pairs if budget.max_nodes}

    def foresee(self, batch: Batch, overhead_ms: float) -> None:
        """Decide what the step after ``batch`` asks for, while the verifier computes this one.

        Everything that the policy looks at is known by then; in the next step only the tokens are
        new, and until it is on its way the verifier waits. If the next step asks nobody, nothing is
        learnt from it, so the one after it can be decided as well, and so on.
        """
        knowledge = self._knowledge
        link, info = knowledge.link, knowledge.info
        if link is None or info is None:
            self._foresight.clear()
            return
        # A step does without features if the next asks nobody, and is computed ahead if it does
        # without them and asks nobody itself.
        depth = 1 + knowledge.computes_ahead + knowledge.features.are_wanted(info)
        running = [request for request in batch.decodes if request.is_running]
        self._foresight.extend(running, depth, lambda: self._decide(link, batch, overhead_ms))

    def asks_nothing_next(self, requests: Sequence[Request]) -> bool:
        """Whether it is settled that the next step asks for neither candidates nor features.

        Those of the requests that have just come do not ask before others do: a step that is not
        computed ahead costs all of them more than their first guesses are worth.
        """
        info = self._knowledge.info
        if info is None:
            return True
        num_steps = 1 + self._knowledge.features.are_wanted(info)
        self._foresight.settle(num_steps, requests)
        return self._foresight.asks_nothing(num_steps, requests)

    def feature_wish(self, requests: Sequence[Request]) -> FeatureWish:
        """What features the present step asks for, of each request that may ask who wants them.

        A source that is asked needs those of the step right before. So they are wanted in every
        step, prompts included, unless it is settled that the next one asks nobody.
        """
        info = self._knowledge.info
        if info is None or self._foresight.asks_nothing(1, requests):
            return NO_FEATURES
        speculation = (request.spec.speculation for request in requests)
        return self._knowledge.features.wish(info, speculation)

    def forget(self, request: Request) -> None:
        """What was decided for it in this wave is void."""
        self._foresight.forget(request)

    def context(self, batch: Batch, overhead_ms: float, own_ms: float = 0.0) -> StepContext:
        """``own_ms`` is what the requests that were asked for added to the call."""
        knowledge, present = self._knowledge, self._present
        call_ms = present.exposed * knowledge.propose_price.call_ms
        costs = None if knowledge.costs is None else knowledge.costs.at(batch.mean_context)
        num_decoding = len(batch.decodes)
        return StepContext(
            num_rows=batch.num_rows,
            num_committing=batch.num_committing,
            max_nodes=batch.max_nodes,
            overhead_ms=overhead_ms,
            propose_ms=call_ms + own_ms + present.lost_ms,
            costs=costs,
            num_decoding=num_decoding,
            decoding_ms=0.0 if costs is None else costs.ms(num_decoding),
            prompts_wait=batch.prompts_wait,
        )

    def _decide(self, link: CandidatesLink, batch: Batch, overhead_ms: float) -> Decision:
        wishes = self._wishes.of(link, batch)
        budgets = self._budgets(wishes, batch, overhead_ms)
        given = zip((wish.request for wish in wishes), budgets, strict=True)
        # One that ended meanwhile must not be kept alive by this.
        running = (request for request in batch.decodes if request.is_running)
        return dict.fromkeys(running, Budget()) | dict(given)

    def _budgets(self, wishes: Sequence[Wish], batch: Batch, overhead_ms: float) -> list[Budget]:
        views = [wish.view for wish in wishes]
        return self._knowledge.policy.budget(views, self.context(batch, overhead_ms))
