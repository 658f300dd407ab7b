"""Which requests may take candidates in a step, how many at most, and from which sources."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.proposal import CandidatesInfo, ProposeItem
from dspark.sampling import SpeculationParams
from dspark.scheduler.batcher import Batch
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.draft_knowledge import DraftKnowledge, PresentStep
from dspark.scheduler.draft_states import DraftState
from dspark.scheduler.policy.interface import Budget, RequestView
from dspark.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Wish:
    """``max_depth`` is that of the deepest node that could still be committed."""

    request: Request
    view: RequestView
    max_depth: int
    sources: tuple[str, ...]

    def item(self, budget: Budget, price: float) -> ProposeItem:
        """What candidates are asked, where a millisecond must bring ``price`` tokens."""
        request = self.request
        return ProposeItem(
            request.request_id,
            request.epoch,
            len(request.token_ids),
            budget.max_nodes,
            self.max_depth,
            self.sources,
            budget.min_survival,
            price,
        )


class Wishes:
    """Those of one wave's requests."""

    def __init__(self, knowledge: DraftKnowledge, present: PresentStep) -> None:
        self._knowledge = knowledge
        self._present = present

    def of(self, link: CandidatesLink, batch: Batch) -> list[Wish]:
        """Of the decoding requests that still run and that candidates know."""
        wishes = (
            self._wish(link, request, batch.max_nodes)
            for request in batch.decodes
            if request.is_running
        )
        return [wish for wish in wishes if wish is not None]

    def _wish(self, link: CandidatesLink, request: Request, max_nodes: int) -> Wish | None:
        speculation = request.spec.speculation
        if not speculation.enabled or link.info is None or not link.graph.knows(request):
            return None
        limits, present = self._knowledge.limits, self._present
        max_nodes = min(max_nodes, limits.max_draft_tokens, limits.max_len - len(request.token_ids))
        if speculation.max_draft_tokens is not None:
            max_nodes = min(max_nodes, speculation.max_draft_tokens)
        # The last remaining token is always the bonus token, so no node can stand for it.
        max_depth = request.num_remaining_tokens - 1
        state = self._knowledge.states.of(request, present.number)
        sources = self._sources(link.info, request, state)
        if max_nodes <= 0 or max_depth <= 0 or not sources:
            return None
        view = RequestView(
            max_nodes,
            state.profiles.latest(),
            present.number - state.asked_at,
            present.exposed * link.info.ms_of(self._charged(sources, speculation)),
            speculation.policy,
        )
        return Wish(request, view, max_depth, sources)

    def _sources(
        self, info: CandidatesInfo, request: Request, state: DraftState
    ) -> tuple[str, ...]:
        """Those that the request wants, that are right now and then, and worth their time."""
        present, wanted = self._present, request.spec.speculation.sources
        active = state.mutes.active(
            (s for s in info.sources if s in (wanted or (s,))), present.number
        )
        if wanted:
            return active
        price = present.exposed * self._knowledge.policy.price
        return present.values.worth(
            active, info.source_ms, price, present.number, request.request_id
        )

    def _charged(self, sources: tuple[str, ...], speculation: SpeculationParams) -> tuple[str, ...]:
        """Those whose time the asking has to be worth: all but what is on trial."""
        if speculation.sources:
            return sources
        return tuple(name for name in sources if self._present.values.is_proven(name))
