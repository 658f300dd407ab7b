"""Which requests take part in a step, and with how many rows: one token budget for all.

Decoding requests come first with one row each. What is left goes to prompts, up to a bound, in such
shares that a long prompt is computed in chunks while short ones pass it. Candidates may use what
then remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dspark.clock import monotonic
from dspark.request_class import RequestClass
from dspark.scheduler.fairness.giving_way import who_gives_way
from dspark.scheduler.fairness.prompt_budget import PromptBudget
from dspark.scheduler.fairness.row_shares import WantedRows, num_unfinished, prompt_rows
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.sitting_out import Away, Runner, sitting_out
from dspark.scheduler.fairness.slot_shares import SlotShares
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.request import Request
from dspark.step import SequenceWork

# At most so many prompts that a step cannot complete are in work: each holds blocks without giving
# tokens yet.
MAX_PARTIAL_PREFILLS = 4
# Share of the pool that admissions leave free, so that running requests can grow before one must be
# preempted.
RESERVED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class ScheduledRows:
    """A request's part in a step; with ``is_admission`` the verifier learns of it in this step."""

    request: Request
    max_pending_rows: int
    is_admission: bool = False

    @property
    def commits(self) -> bool:
        """Whether the step reaches the last known token, so that it commits at least one more."""
        return self.max_pending_rows >= self.request.num_pending_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step computes besides candidates, which may take up to ``max_nodes`` more rows.

    ``prompts_wait`` says that requests wait for others' prompts although there are places for them.
    """

    scheduled: tuple[ScheduledRows, ...]
    max_nodes: int
    prompts_wait: bool = False

    @property
    def num_rows(self) -> int:
        return sum(rows.max_pending_rows for rows in self.scheduled)

    @property
    def num_committing(self) -> int:
        return sum(rows.commits for rows in self.scheduled)

    @property
    def mean_context(self) -> float:
        """Tokens that a row attends to, averaged over the requests; 0 without any."""
        ends = [r.request.num_computed_tokens + r.max_pending_rows for r in self.scheduled]
        return sum(ends) / len(ends) if ends else 0.0

    def without_changed(self, epochs: Sequence[int]) -> Batch:
        """What is still to be done of it; ``epochs`` are those that its requests had.

        Some may have been cancelled, or preempted by another wave, since it was scheduled.
        """
        kept = tuple(
            rows
            for rows, epoch in zip(self.scheduled, epochs, strict=True)
            if rows.request.is_running and rows.request.epoch == epoch
        )
        return replace(self, scheduled=kept)

    @property
    def has_decodes(self) -> bool:
        """Whether there are any ``decodes``."""
        return any(not r.is_admission and r.request.num_pending_tokens == 1 for r in self.scheduled)

    @property
    def decodes(self) -> list[Request]:
        """Requests whose only pending token is their anchor: candidates may grow from it."""
        return [
            rows.request
            for rows in self.scheduled
            if not rows.is_admission and rows.request.num_pending_tokens == 1
        ]


@dataclass(frozen=True, slots=True)
class Batcher:
    """``max_rows`` is the token budget of a step; sizes of the KV pool are in blocks.

    ``budget`` says how many rows prompts may have; None means all that decoding leaves.
    """

    max_num_seqs: int
    max_rows: int
    block_size: int
    num_blocks: int
    budget: PromptBudget | None = None
    settings: FairnessSettings = field(default_factory=FairnessSettings)

    def stretched(self, factor: float) -> Batcher:
        """With more rows for prompts where drafts make steps ``factor`` times as long."""
        if self.budget is None or factor <= 1.0:
            return self
        return replace(self, budget=self.budget.stretched(factor))

    def schedule(self, live: LiveRequests, num_free_blocks: int, wave: int = 0) -> Batch:
        """Admit what fits, then share the rows. Admitted requests become running.

        Only requests of this wave take part, and those that it admits. What the others need for
        the tokens that they know is left to them.
        """
        urgent, num_freed = self._make_way(live, num_free_blocks)
        num_free_blocks += num_freed - self._growth(live.running)
        own = [r for r in live.running if r.wave == wave]
        decodes = [r for r in own if r.num_pending_tokens == 1]
        prefills = [r for r in own if r.num_pending_tokens > 1]
        rows_left = self.max_rows - len(decodes)
        admitted = self._admit(live, prefills, rows_left, num_free_blocks, urgent)
        for request in admitted:
            request.wave = wave
        prefills.extend(admitted)
        decodes, prefills = self._taking_part(live, decodes, prefills, admitted)
        rows_left = self.max_rows - len(decodes)
        shares = self._shares(prefills, live.running, len(decodes))
        is_new = set(admitted)
        scheduled = [ScheduledRows(request, 1) for request in decodes]
        scheduled += [
            ScheduledRows(request, rows, request in is_new)
            for request, rows in zip(prefills, shares, strict=True)
        ]
        num_free_blocks -= sum(self._blocks(len(r.token_ids) + 1) for r in admitted)
        return Batch(
            tuple(scheduled),
            self._max_nodes(rows_left - sum(shares), num_free_blocks, len(decodes)),
            self._prompts_wait(live, scheduled),
        )

    def _taking_part(
        self,
        live: LiveRequests,
        decodes: Sequence[Request],
        prefills: Sequence[Request],
        admitted: Sequence[Request],
    ) -> tuple[list[Request], list[Request]]:
        """Those that are in this step: not all, where they are in another tenant's way."""
        away = Away([], [])
        if any(map(self._hurried_rows, prefills)):
            new = set(admitted)
            away = sitting_out(
                [self._runner(live, r) for r in decodes],
                [self._runner(live, r, r in new) for r in prefills],
                self._prompt_budget,
            )
        for index, request in enumerate(decodes):
            request.num_sat_out = request.num_sat_out + 1 if index in away.decoding else 0
        return (
            [request for index, request in enumerate(decodes) if index not in away.decoding],
            [request for index, request in enumerate(prefills) if index not in away.prompts],
        )

    def _runner(self, live: LiveRequests, request: Request, is_new: bool = False) -> Runner:
        return Runner(
            request.spec.tenant,
            live.waiting.round_of(request.share),
            0 if request.num_pending_tokens == 1 else self._hurried_rows(request),
            request.num_sat_out,
            is_new,
        )

    def _hurried_rows(self, request: Request) -> int:
        is_batch = request.spec.request_class is RequestClass.BATCH
        return 0 if is_batch or self._is_long(request) else request.num_pending_tokens

    def _is_long(self, request: Request) -> bool:
        return request.num_uncached_tokens >= self.settings.long_prompt_tokens

    def _admit(
        self,
        live: LiveRequests,
        prefills: Sequence[Request],
        rows_left: int,
        num_free_blocks: int,
        urgent: Request | None,
    ) -> list[Request]:
        """Admit what fits, ``urgent`` before all others."""
        admitted: list[Request] = []
        if not live.waiting:
            return admitted
        pending = [request.num_pending_tokens for request in prefills]
        # A tenant may have one prompt in work whatever others have.
        tenants = {request.spec.tenant for request in prefills}
        slots = self._slots(live)
        num_rows = min(rows_left, self._prompt_budget.num_rows)
        while (request := urgent or live.waiting.peek(slots)) is not None:
            urgent = None
            if len(live.running) >= self._max_running:
                break
            key = live.waiting.key_of(request)
            num_partial = num_unfinished(num_rows, [*pending, len(request.token_ids)])
            if num_partial > MAX_PARTIAL_PREFILLS and key.tenant in tenants:
                slots.block(key)
                continue
            if not self._fits(request, live, num_free_blocks):
                break
            num_free_blocks -= self._need(request)
            pending.append(len(request.token_ids))
            tenants.add(key.tenant)
            slots.add(key)
            live.admit(request)
            admitted.append(request)
        return admitted

    def _prompts_wait(self, live: LiveRequests, scheduled: Sequence[ScheduledRows]) -> bool:
        num_partial = sum(not rows.commits for rows in scheduled)
        has_places = len(live.running) < self._max_running
        return bool(live.waiting) and has_places and num_partial >= MAX_PARTIAL_PREFILLS

    def _make_way(self, live: LiveRequests, num_free_blocks: int) -> tuple[Request | None, int]:
        """Preempt a request for one that must not wait longer.

        Returns that one, and how many blocks are freed for it; None and 0 if nobody has to go.
        """
        nothing = None, 0
        if not live.waiting or (request := live.waiting.peek(self._slots(live))) is None:
            return nothing
        if monotonic() - request.arrived_at < self.settings.preempt_after_s:
            return nothing
        num_left = num_free_blocks - self._growth(live.running)
        if len(live.running) < self._max_running and self._fits(request, live, num_left):
            return nothing
        queue, num_slots = live.waiting, self._max_running
        victim = who_gives_way(
            request, live.running, queue.shares, num_slots, self.settings, queue.round_of
        )
        if victim is None:
            return nothing
        num_freed = self._blocks(victim.num_computed_tokens)
        live.give_way(victim)
        return request, num_freed

    @property
    def _max_running(self) -> int:
        return min(self.max_num_seqs, self.max_rows)

    def _slots(self, live: LiveRequests) -> SlotShares:
        running = map(live.waiting.key_of, live.running)
        return SlotShares(self._max_running, self.settings, running)

    def _fits(self, request: Request, live: LiveRequests, num_free_blocks: int) -> bool:
        # A prefix hit would need less, but is not known before the verifier looks.
        reserve = max(1, int(self.num_blocks * RESERVED_SHARE))
        return self._need(request) + reserve <= num_free_blocks or not live.running

    def _need(self, request: Request) -> int:
        return self._blocks(len(request.token_ids) + 1)

    def _shares(
        self, prefills: Sequence[Request], running: Sequence[Request], num_decodes: int
    ) -> list[int]:
        """Rows of each prompt. The tenant that runs least goes first, batch last."""
        num_running = Counter(request.spec.tenant for request in running)
        wanted = [
            WantedRows(
                request.num_pending_tokens,
                (request.spec.request_class.rank, num_running[request.spec.tenant]),
                request.spec.tenant,
                self._is_long(request),
            )
            for request in prefills
        ]
        rows_left = self.max_rows - num_decodes
        return prompt_rows(rows_left, wanted, num_decodes, self._prompt_budget)

    @property
    def _prompt_budget(self) -> PromptBudget:
        return self.budget or PromptBudget(None, 0, self.max_rows)

    def _growth(self, running: Sequence[Request]) -> int:
        """Blocks that running requests are going to take for the tokens they know."""
        return sum(
            self._blocks(len(r.token_ids) + 1) - self._blocks(r.num_computed_tokens)
            for r in running
        )

    def blocks_of_trees(self, batch: Batch, max_draft_tokens: int) -> int:
        """Blocks that the trees of a batch may take at most."""
        num_decodes = len(batch.decodes)
        num_nodes = min(batch.max_nodes, num_decodes * max_draft_tokens)
        return num_decodes + self._blocks(num_nodes) if num_nodes else 0

    def blocks_of(self, work: SequenceWork) -> int:
        """Blocks that a tree takes beside those for known tokens and one more."""
        with_tree = self._blocks(work.base_len + len(work.tree))
        return max(with_tree - self._blocks(work.base_len + 1), 0)

    def _max_nodes(self, rows_left: int, num_free_blocks: int, num_decodes: int) -> int:
        # Each tree may open one more block than its nodes fill.
        return max(0, min(rows_left, (num_free_blocks - num_decodes) * self.block_size))

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)
