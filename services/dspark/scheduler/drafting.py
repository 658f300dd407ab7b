"""From decoding requests to the trees that the verifier gets: ask, check, calibrate, choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspark.clock import monotonic
from dspark.features import Features
from dspark.proposal import CandidatesInfo, DraftProposal
from dspark.sampling import SpeculationParams
from dspark.scheduler.batcher import Batch
from dspark.scheduler.calibration import Calibration
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.decision_log import DecisionLog
from dspark.scheduler.decision_record import asked_step, plain_step
from dspark.scheduler.draft_states import DraftState, DraftStates
from dspark.scheduler.drafting_books import DraftingBooks, Fallback
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish, FeatureWishes
from dspark.scheduler.foresight import Decision, Foresight, asks
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.outcomes import Outcome
from dspark.scheduler.policy.interface import (
    Budget,
    RequestView,
    ScoredTree,
    SpeculationPolicy,
    StepContext,
)
from dspark.scheduler.proposal_check import fitting
from dspark.scheduler.propose_price import ProposePrice
from dspark.scheduler.request import Request
from dspark.scheduler.source_values import SourceValues
from dspark.scheduler.wish import Wish
from dspark.step import WorkResult
from dspark.token_tree import TokenTree

Drafts = Mapping[Request, TokenTree]

FIRST_PROPOSE_MS = 2.0
# Successors are worth having while candidates are asked; steps after the last asking in which they
# still are.
SUCCESSOR_STEPS = 4


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """What every tree must fit; sizes in tokens."""

    vocab_size: int
    max_len: int
    max_draft_tokens: int
    mute_after: int
    mute_steps: int


@dataclass(slots=True)
class Drafting:
    """Owns calibration and each request's recent luck. It costs time, but never changes a token.

    Each wave of a verifier has one of its own, with the same knowledge: see ``beside``.
    """

    policy: SpeculationPolicy
    link: CandidatesLink | None
    limits: DraftLimits
    costs: OnlineCosts | None
    books: DraftingBooks = field(default_factory=DraftingBooks)
    calibration: Calibration = field(default_factory=Calibration)
    propose_price: ProposePrice = field(default_factory=lambda: ProposePrice(FIRST_PROPOSE_MS))
    features: FeatureWishes = field(default_factory=FeatureWishes)
    log: DecisionLog | None = None
    # whether ``asks_nothing_next`` is of use
    computes_ahead: bool = False
    step: int = 0
    # time that the last step waited for candidates, and all that drafting took of it
    waited_ms: float = 0.0
    took_ms: float = 0.0
    # what a step that asks loses beside that, since it cannot be computed ahead
    lost_ms: float = 0.0
    # share of the time of drafting in which the verifier has nothing else to do
    exposed: float = 1.0
    # what candidates proposed in the last step
    offered: Drafts = field(default_factory=dict)
    values: SourceValues = field(default_factory=SourceValues)
    _states: DraftStates = field(init=False)
    _foresight: Foresight = field(default_factory=Foresight)
    _asked_at: int = -SUCCESSOR_STEPS
    _mean_context: float = 0.0

    def __post_init__(self) -> None:
        limits = self.limits
        self._states = DraftStates(limits.mute_after, limits.mute_steps, limits.max_draft_tokens)

    def beside(self) -> Drafting:
        """Of another wave: what is learnt and decided is common, the steps are its own."""
        other = replace(self, offered={}, _foresight=Foresight(), _asked_at=-SUCCESSOR_STEPS)
        other._states = self._states
        return other

    @property
    def top_k(self) -> int:
        """How many successors of each logits row the candidates can use now."""
        info = self._info
        if info is None:
            return 0
        return info.top_k if self.step - self._asked_at < SUCCESSOR_STEPS else 0

    @property
    def _info(self) -> CandidatesInfo | None:
        """What candidates say of themselves; None while nobody can be asked."""
        link = self.link
        if self.policy.is_off or link is None or not link.is_usable:
            return None
        return link.info

    def feature_wish(self, requests: Sequence[Request]) -> FeatureWish:
        """What features the present step asks for, of each request that may ask who wants them.

        A source that is asked needs those of the step right before. So they are wanted in every
        step, prompts included, unless it is settled that the next one asks nobody.
        """
        info = self._info
        if info is None or self._foresight.asks_nothing(1, requests):
            return NO_FEATURES
        return self.features.wish(info, (request.spec.speculation for request in requests))

    def foresee(self, batch: Batch, overhead_ms: float) -> None:
        """Decide what the step after ``batch`` asks for, while the verifier computes this one.

        Everything that the policy looks at is known by then; in the next step only the tokens are
        new, and until it is on its way the verifier waits. If the next step asks nobody, nothing is
        learnt from it, so the one after it can be decided as well, and so on.
        """
        link, info = self.link, self._info
        if link is None or info is None:
            self._foresight.clear()
            return
        # A step does without features if the next asks nobody, and is computed ahead if it does
        # without them and asks nobody itself.
        depth = 1 + self.computes_ahead + self.features.are_wanted(info)
        running = [request for request in batch.decodes if request.is_running]
        self._foresight.extend(running, depth, lambda: self._decide(link, batch, overhead_ms))

    def asks_nothing_next(self, requests: Sequence[Request]) -> bool:
        """Whether it is settled that the next step asks for neither candidates nor features."""
        info = self._info
        if info is None:
            return True
        return self._foresight.asks_nothing(1 + self.features.are_wanted(info), requests)

    async def draft(self, batch: Batch, overhead_ms: float) -> Drafts:
        """A tree for each decoding request that gets one."""
        self.step = self._states.next_step(self.step)
        self._mean_context = batch.mean_context
        self.waited_ms = self.took_ms = 0.0
        self.offered = {}
        link, foreseen = self.link, self._foresight.take(batch.decodes)
        if link is None or self._info is None:
            return self._fall_back(self._obstacle(), batch)
        started = monotonic()
        asked = self._asked(link, batch, foreseen, overhead_ms)
        if not asked:
            self._log_plain(batch, overhead_ms)
            return self._fall_back(Fallback.NOT_ASKED, batch)
        proposals = await self._propose(link, list(asked.values()))
        trees = self.offered = self._checked(link, proposals or (), asked)
        scored = [
            ScoredTree(tree, self._survivals(request, tree), asked[request][0].view.policy)
            for request, tree in trees.items()
        ]
        outcomes = self._remember(asked, trees, scored)
        wishes = [wish for wish, _ in asked.values()]
        own_ms = sum(wish.view.propose_ms for wish in wishes)
        context = self._context(batch, overhead_ms, own_ms)
        chosen = self.policy.select(scored, context)
        if self.log is not None:
            decided = dict(zip(trees, zip(scored, chosen, strict=True), strict=True))
            self.log.add(*asked_step(context, self.policy.price, asked, decided, outcomes))
        self.took_ms = (monotonic() - started) * 1e3
        self.propose_price.add(self.took_ms, (wish.sources for wish in wishes), link.info)
        bought = {request: tree for request, tree in zip(trees, chosen, strict=True) if tree}
        if not bought:
            reason = Fallback.NOT_BOUGHT if trees else Fallback.EMPTY
            return self._fall_back(Fallback.LATE if proposals is None else reason, batch)
        return bought

    def learn(self, request: Request, tree: TokenTree, result: WorkResult) -> None:
        """Take in what became of a verified tree, and the successors that came with it."""
        link = self.link
        if link is not None and request.spec.speculation.enabled:
            link.graph.add_successors(request, result)
        if tree:
            state, accepted = self._states.of(request, self.step), result.accepted_nodes
            self.books.mutes.update(state.mutes.update(tree, accepted, self.step))
            info = None if link is None else link.info
            self.values.credit(tree, accepted, {} if info is None else info.source_ms)
        for outcome in self._states.follow(request, result.committed_token_ids):
            self.calibration.update(outcome)

    def keep_features(self, request: Request, features: Features, num_tokens: int) -> None:
        """Candidates are told with the next update; of no more than the last ``num_tokens``."""
        if self.link is not None and num_tokens:
            self.link.graph.add_features(request, features, num_tokens)

    def observe(self, requests: Sequence[Request]) -> None:
        """Let candidates know of the running requests, without waiting."""
        if not self.policy.is_off and self.link is not None:
            self.link.observe_in_background(requests)

    @property
    def has_ends(self) -> bool:
        """Whether candidates have yet to be told that a request ended."""
        return self.link is not None and self.link.graph.has_ends

    def note_forward(self, num_rows: int, forward_ms: float) -> None:
        """What a pass took, for the prices of the next ones."""
        if self.costs is not None:
            self.costs.observe(num_rows, forward_ms, self._mean_context)

    def pass_ms(self, num_rows: float) -> float:
        """What a pass takes at the mean context of now; 0 if nothing was measured."""
        table = self.costs and self.costs.at(self._mean_context)
        return table.ms(math.ceil(num_rows)) if table else 0.0

    def end(self, request: Request, completed: bool) -> None:
        for outcome in self._states.forget(request):
            self.calibration.update(outcome)
        self.forget(request)
        was_told = request.spec.speculation.enabled and request.epoch
        if was_told and not self.policy.is_off and self.link is not None:
            self.link.graph.add_end(request, completed)

    def forget(self, request: Request) -> None:
        """What was decided for it in this wave is void."""
        self._foresight.forget(request)

    def _log_plain(self, batch: Batch, overhead_ms: float) -> None:
        if self.log is not None and batch.has_decodes:
            context = self._context(batch, overhead_ms)
            self.log.add(plain_step(context, self.policy.price), {})

    def _fall_back(self, reason: Fallback, batch: Batch) -> Drafts:
        if batch.has_decodes:
            self.books.fallbacks[reason] += 1
        return {}

    def _obstacle(self) -> Fallback:
        """Why nobody can be asked."""
        if self.policy.is_off:
            return Fallback.OFF
        return Fallback.NO_SERVICE if self.link is None else Fallback.UNAVAILABLE

    def _asked(
        self, link: CandidatesLink, batch: Batch, foreseen: Decision | None, overhead_ms: float
    ) -> dict[Request, tuple[Wish, Budget]]:
        """Whom to ask candidates for, and for how many."""
        if foreseen is not None and not asks(foreseen):
            return {}
        wishes = self._wishes(link, batch)
        if foreseen is None:
            budgets = self._price(wishes, batch, overhead_ms)
        else:
            budgets = [foreseen[wish.request].within(wish.view.max_nodes) for wish in wishes]
        pairs = zip(wishes, budgets, strict=True)
        return {wish.request: (wish, budget) for wish, budget in pairs if budget.max_nodes}

    def _decide(self, link: CandidatesLink, batch: Batch, overhead_ms: float) -> Decision:
        wishes = self._wishes(link, batch)
        budgets = self._price(wishes, batch, overhead_ms)
        given = zip((wish.request for wish in wishes), budgets, strict=True)
        # One that ended meanwhile must not be kept alive by this.
        running = (request for request in batch.decodes if request.is_running)
        return dict.fromkeys(running, Budget()) | dict(given)

    def _price(self, wishes: Sequence[Wish], batch: Batch, overhead_ms: float) -> list[Budget]:
        views = [wish.view for wish in wishes]
        return self.policy.budget(views, self._context(batch, overhead_ms))

    def _wishes(self, link: CandidatesLink, batch: Batch) -> list[Wish]:
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
        limits = self.limits
        max_nodes = min(max_nodes, limits.max_draft_tokens, limits.max_len - len(request.token_ids))
        if speculation.max_draft_tokens is not None:
            max_nodes = min(max_nodes, speculation.max_draft_tokens)
        # The last remaining token is always the bonus token, so no node can stand for it.
        max_depth = request.num_remaining_tokens - 1
        state = self._states.of(request, self.step)
        sources = self._sources(link.info, speculation, state)
        if max_nodes <= 0 or max_depth <= 0 or not sources:
            return None
        view = RequestView(
            max_nodes,
            state.profiles.latest(),
            self.step - state.asked_at,
            self.exposed * link.info.ms_of(sources),
            speculation.policy,
        )
        return Wish(request, view, max_depth, sources)

    def _sources(
        self, info: CandidatesInfo, speculation: SpeculationParams, state: DraftState
    ) -> tuple[str, ...]:
        """Those that the request wants, that are right now and then, and worth their time."""
        wanted = (s for s in info.sources if s in (speculation.sources or (s,)))
        active = state.mutes.active(wanted, self.step)
        if speculation.sources:
            return active
        price = self.exposed * self.policy.price
        return self.values.worth(active, info.source_ms, price, self.step)

    async def _propose(
        self, link: CandidatesLink, asked: Sequence[tuple[Wish, Budget]]
    ) -> tuple[DraftProposal, ...] | None:
        """What candidates propose; None if they do not answer in time."""
        items = [wish.item(budget, self.exposed * self.policy.price) for wish, budget in asked]
        started = monotonic()
        outcome = await link.propose(items, [wish.request for wish, _ in asked])
        self.waited_ms = (monotonic() - started) * 1e3
        self._asked_at = self.step
        if outcome is None:
            return None
        costs_ns = outcome.source_costs_ns
        self.books.count_costs(costs_ns if link.runs(costs_ns) else {})
        for wish, _ in asked:
            # Candidates leave out a dear source where the others left it no room.
            self.values.asked([name for name in wish.sources if name in costs_ns])
        return outcome.proposals

    def _checked(
        self,
        link: CandidatesLink,
        proposals: Sequence[DraftProposal],
        asked: Mapping[Request, tuple[Wish, Budget]],
    ) -> dict[Request, TokenTree]:
        """Proposals that are well formed and still grow from the request's last token."""
        by_id = {request.request_id: request for request in asked}
        trees: dict[Request, TokenTree] = {}
        for proposal in proposals:
            request = by_id.get(proposal.request_id)
            if request is None or not request.is_at(proposal.epoch, proposal.base_len):
                continue
            if not link.runs(proposal.tree.source_names):
                continue
            wish, budget = asked[request]
            tree = fitting(proposal.tree, self.limits.vocab_size, budget.max_nodes, wish.max_depth)
            if tree:
                self.books.count_proposed(tree)
                trees[request] = tree
        return trees

    def _survivals(self, request: Request, tree: TokenTree) -> list[float]:
        return self.calibration.survivals(tree, self._states.of(request, self.step).temperature_bin)

    def _remember(
        self,
        asked: Mapping[Request, tuple[Wish, Budget]],
        trees: Mapping[Request, TokenTree],
        scored: Sequence[ScoredTree],
    ) -> dict[Request, Outcome]:
        """What the requests were offered, nothing included; returns what is to come of it."""
        outcomes: dict[Request, Outcome] = {}
        survivals = {r: each.survivals for r, each in zip(trees, scored, strict=True)}
        for request in asked:
            if request.is_finished:
                continue
            state = self._states.of(request, self.step)
            state.asked_at = self.step
            if request in trees:
                outcomes[request] = state.outcomes.offer(trees[request])
            self._states.remember(state, survivals.get(request, ()))
        return outcomes

    def _context(self, batch: Batch, overhead_ms: float, own_ms: float = 0.0) -> StepContext:
        """``own_ms`` is what the requests that were asked for added to the call."""
        return StepContext(
            num_rows=batch.num_rows,
            num_committing=batch.num_committing,
            max_nodes=batch.max_nodes,
            overhead_ms=overhead_ms,
            propose_ms=self.exposed * self.propose_price.call_ms + own_ms + self.lost_ms,
            costs=None if self.costs is None else self.costs.at(batch.mean_context),
        )
