"""From decoding requests to the trees that the verifier gets: ask, check, calibrate, choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspark.clock import monotonic
from dspark.proposal import DraftProposal
from dspark.scheduler.askings import Asked, Askings
from dspark.scheduler.batcher import Batch
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.decision_record import asked_step, plain_step
from dspark.scheduler.draft_knowledge import DraftKnowledge, PresentStep
from dspark.scheduler.draft_lessons import DraftLessons
from dspark.scheduler.drafting_books import Fallback
from dspark.scheduler.policy.interface import Budget, ScoredTree
from dspark.scheduler.proposal_check import fitting
from dspark.scheduler.request import Request
from dspark.scheduler.wishes import Wish
from dspark.token_tree import TokenTree

Drafts = Mapping[Request, TokenTree]

# Successors are worth having while candidates are asked; steps after the last asking in which they
# still are.
SUCCESSOR_STEPS = 4


class Drafting:
    """The drafts of one wave of a verifier, by what all its waves know."""

    def __init__(self, knowledge: DraftKnowledge) -> None:
        self.knowledge = knowledge
        self.present = PresentStep()
        self.askings = Askings(knowledge, self.present)
        self.lessons = DraftLessons(knowledge, self.present)
        # time that the last step waited for candidates, and all that drafting took of it
        self.waited_ms = 0.0
        self.took_ms = 0.0
        # what candidates proposed in the last step
        self.offered: Drafts = {}
        self._asked_at = -SUCCESSOR_STEPS

    @property
    def top_k(self) -> int:
        """How many successors of each logits row the candidates can use now."""
        info = self.knowledge.info
        if info is None:
            return 0
        return info.top_k if self.present.number - self._asked_at < SUCCESSOR_STEPS else 0

    async def draft(self, batch: Batch, overhead_ms: float) -> Drafts:
        """A tree for each decoding request that gets one."""
        self._begin(batch)
        started = monotonic()
        knowledge = self.knowledge
        link, asked = knowledge.link, self.askings.take(batch, overhead_ms)
        if link is None or asked is None:
            return self._fall_back(knowledge.obstacle, batch)
        if not asked:
            self._log_plain(batch, overhead_ms)
            return self._fall_back(Fallback.NOT_ASKED, batch)
        proposals = await self._propose(link, list(asked.values()))
        trees = self.offered = self._checked(link, proposals or (), asked)
        bought = self._choose(batch, overhead_ms, asked, trees)
        self.took_ms = (monotonic() - started) * 1e3
        sources = (wish.sources for wish, _ in asked.values())
        knowledge.propose_price.add(self.took_ms, sources, link.info)
        if not bought:
            reason = Fallback.NOT_BOUGHT if trees else Fallback.EMPTY
            return self._fall_back(Fallback.LATE if proposals is None else reason, batch)
        return bought

    def _begin(self, batch: Batch) -> None:
        present = self.present
        present.number = self.knowledge.states.next_step(present.number)
        present.mean_context = batch.mean_context
        self.waited_ms = self.took_ms = 0.0
        self.offered = {}

    async def _propose(
        self, link: CandidatesLink, asked: Sequence[tuple[Wish, Budget]]
    ) -> tuple[DraftProposal, ...] | None:
        """What candidates propose; None if they do not answer in time."""
        knowledge, present = self.knowledge, self.present
        price = present.exposed * knowledge.policy.price
        items = [wish.item(budget, price) for wish, budget in asked]
        started = monotonic()
        outcome = await link.propose(items, [wish.request for wish, _ in asked])
        self.waited_ms = (monotonic() - started) * 1e3
        self._asked_at = present.number
        if outcome is None:
            return None
        costs_ns = outcome.source_costs_ns
        knowledge.books.count_costs(costs_ns if link.runs(costs_ns) else {})
        for wish, _ in asked:
            # Candidates leave out a dear source where the others left it no room.
            names = [name for name in wish.sources if name in costs_ns]
            present.values.asked(names, present.number)
        return outcome.proposals

    def _checked(
        self, link: CandidatesLink, proposals: Sequence[DraftProposal], asked: Asked
    ) -> dict[Request, TokenTree]:
        """Proposals that are well formed and still grow from the request's last token."""
        knowledge = self.knowledge
        vocab_size = knowledge.limits.vocab_size
        by_id = {request.request_id: request for request in asked}
        trees: dict[Request, TokenTree] = {}
        for proposal in proposals:
            request = by_id.get(proposal.request_id)
            if request is None or not request.is_at(proposal.epoch, proposal.base_len):
                continue
            if not link.runs(proposal.tree.source_names):
                continue
            wish, budget = asked[request]
            tree = fitting(proposal.tree, vocab_size, budget.max_nodes, wish.max_depth)
            if tree:
                knowledge.books.count_proposed(tree)
                trees[request] = tree
        return trees

    def _choose(
        self, batch: Batch, overhead_ms: float, asked: Asked, trees: Mapping[Request, TokenTree]
    ) -> Drafts:
        """The nodes that are worth verifying, of the requests that get any."""
        knowledge, step = self.knowledge, self.present.number
        states, survivals = knowledge.states, knowledge.calibration.survivals
        scored = [
            ScoredTree(
                tree,
                survivals(tree, states.of(request, step).temperature_bin),
                asked[request][0].view.policy,
            )
            for request, tree in trees.items()
        ]
        outcomes = self.lessons.remember(asked, trees, scored)
        own_ms = sum(wish.view.propose_ms for wish, _ in asked.values())
        context = self.askings.context(batch, overhead_ms, own_ms)
        chosen = knowledge.policy.select(scored, context)
        if knowledge.log is not None:
            decided = dict(zip(trees, zip(scored, chosen, strict=True), strict=True))
            knowledge.log.add(
                *asked_step(context, knowledge.policy.price, asked, decided, outcomes)
            )
        return {request: tree for request, tree in zip(trees, chosen, strict=True) if tree}

    def _log_plain(self, batch: Batch, overhead_ms: float) -> None:
        knowledge = self.knowledge
        if knowledge.log is not None and batch.has_decodes:
            context = self.askings.context(batch, overhead_ms)
            knowledge.log.add(plain_step(context, knowledge.policy.price), {})

    def _fall_back(self, reason: Fallback, batch: Batch) -> Drafts:
        if batch.has_decodes:
            self.knowledge.books.fallbacks[reason] += 1
        return {}
