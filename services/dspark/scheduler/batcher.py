"""Which requests take part in a step, and with how many rows: one token budget for all.

Decoding requests come first with one row each. What is left goes to prompts, shared evenly, so that
a long prompt is computed in chunks while short ones pass it. Candidates may use what then remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.request import Request

# While prompts fill a step, at most this many are in work: each holds blocks without giving tokens
# yet.
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
    """What one step computes besides candidates, which may take up to ``max_nodes`` more rows."""

    scheduled: tuple[ScheduledRows, ...]
    max_nodes: int

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
    """``max_rows`` is the token budget of a step; sizes of the KV pool are in blocks."""

    max_num_seqs: int
    max_rows: int
    block_size: int
    num_blocks: int

    def schedule(self, live: LiveRequests, num_free_blocks: int) -> Batch:
        """Admit what fits, then share the rows. Admitted requests become running."""
        num_free_blocks -= self._growth(live.running)
        decodes = [r for r in live.running if r.num_pending_tokens == 1]
        prefills = [r for r in live.running if r.num_pending_tokens > 1]
        rows_left = self.max_rows - len(decodes)
        admitted = self._admit(live, prefills, rows_left, num_free_blocks)
        prefills.extend(admitted)
        shares = share_evenly(rows_left, [r.num_pending_tokens for r in prefills])
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
        )

    def _admit(
        self, live: LiveRequests, prefills: Sequence[Request], rows_left: int, num_free_blocks: int
    ) -> list[Request]:
        admitted: list[Request] = []
        pending = sum(request.num_pending_tokens for request in prefills)
        reserve = max(1, int(self.num_blocks * RESERVED_SHARE))
        max_running = min(self.max_num_seqs, self.max_rows)
        while (request := live.waiting.peek()) is not None:
            partial = len(prefills) + len(admitted)
            if len(live.running) >= max_running:
                break
            if pending >= rows_left and partial >= MAX_PARTIAL_PREFILLS:
                break
            need = self._blocks(len(request.token_ids) + 1)
            # A prefix hit would need less, but is not known before the verifier looks.
            if need + reserve > num_free_blocks and live.running:
                break
            num_free_blocks -= need
            pending += len(request.token_ids)
            live.admit(request)
            admitted.append(request)
        return admitted

    def _growth(self, running: Sequence[Request]) -> int:
        """Blocks that running requests are going to take for the tokens they know."""
        return sum(
            self._blocks(len(r.token_ids) + 1) - self._blocks(r.num_computed_tokens)
            for r in running
        )

    def _max_nodes(self, rows_left: int, num_free_blocks: int, num_decodes: int) -> int:
        # Each tree may open one more block than its nodes fill.
        return max(0, min(rows_left, (num_free_blocks - num_decodes) * self.block_size))

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)


def share_evenly(total: int, wanted: Sequence[int]) -> list[int]:
    """Split ``total`` so that small wishes are met in full and large ones get equal parts.

    >>> share_evenly(100, [500, 10, 500])
    [45, 10, 45]
    """
    shares = [0] * len(wanted)
    left = total
    smallest_first = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(smallest_first):
        shares[index] = min(wanted[index], left // (len(wanted) - position))
        left -= shares[index]
    return shares
