"""What drafting learns from steps, and what candidates are told of them without being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspark.features import Features
from dspark.scheduler.askings import Asked
from dspark.scheduler.draft_knowledge import DraftKnowledge, PresentStep
from dspark.scheduler.outcomes import Outcome
from dspark.scheduler.policy.interface import ScoredTree
from dspark.scheduler.request import Request
from dspark.step import WorkResult
from dspark.token_tree import TokenTree


class DraftLessons:
    """From the steps of one wave, for what all waves know."""

    def __init__(self, knowledge: DraftKnowledge, present: PresentStep) -> None:
        self._knowledge = knowledge
        self._present = present

    def remember(
        self, asked: Asked, trees: Mapping[Request, TokenTree], scored: Sequence[ScoredTree]
    ) -> dict[Request, Outcome]:
        """What the requests were offered, nothing included; returns what is to come of it."""
        states, step = self._knowledge.states, self._present.number
        outcomes: dict[Request, Outcome] = {}
        survivals = {r: each.survivals for r, each in zip(trees, scored, strict=True)}
        for request in asked:
            if request.is_finished:
                continue
            state = states.of(request, step)
            state.asked_at = step
            if request in trees:
                outcomes[request] = state.outcomes.offer(trees[request])
            states.remember(state, survivals.get(request, ()))
        return outcomes

    def learn(self, request: Request, tree: TokenTree, result: WorkResult) -> None:
        """Take in what became of a verified tree, and the successors that came with it."""
        knowledge, present = self._knowledge, self._present
        link = knowledge.link
        if link is not None and request.spec.speculation.enabled:
            link.graph.add_successors(request, result)
        if tree:
            step, accepted = present.number, result.accepted_nodes
            mutes = knowledge.states.of(request, step).mutes
            knowledge.books.mutes.update(mutes.update(tree, accepted, step))
            info = None if link is None else link.info
            present.values.credit(tree, accepted, {} if info is None else info.source_ms)
        for outcome in knowledge.states.follow(request, result.committed_token_ids):
            knowledge.calibration.update(outcome)

    def keep_features(self, request: Request, features: Features, num_tokens: int) -> None:
        """Candidates are told with the next update; of no more than the last ``num_tokens``."""
        link = self._knowledge.link
        if link is not None and num_tokens:
            link.graph.add_features(request, features, num_tokens)

    def observe(self, requests: Sequence[Request]) -> None:
        """Let candidates know of the running requests, without waiting."""
        link = self._knowledge.link
        if not self._knowledge.policy.is_off and link is not None:
            link.observe_in_background(requests)

    @property
    def has_ends(self) -> bool:
        """Whether candidates have yet to be told that a request ended."""
        link = self._knowledge.link
        return link is not None and link.graph.has_ends
