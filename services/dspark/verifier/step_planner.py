"""Turns a step's work entries into rows, with a block for every row."""

from __future__ import annotations

import logging

from dspark.step import SequenceWork, WorkResult, WorkStatus
from dspark.verifier.kv.block_pool import BlockPool, OutOfBlocks
from dspark.verifier.scheduled_work import ScheduledWork, is_usable
from dspark.verifier.sequence import Sequence
from dspark.verifier.sequence_table import SequenceTable
from dspark.verifier.structure.compiler import StructureBooks

log = logging.getLogger(__name__)


class StepPlanner:
    """Decides what each work entry gets.

    All pending rows get their blocks before any tree does, and a tree takes only what is left:
    candidates never push a sequence out.
    """

    def __init__(
        self,
        sequences: SequenceTable,
        pool: BlockPool,
        *,
        vocab_size: int,
        block_size: int,
        max_tree_nodes: int,
        max_prompt_logits: int,
        books: StructureBooks,
    ) -> None:
        self._sequences = sequences
        self._pool = pool
        self._vocab_size = vocab_size
        self._block_size = block_size
        self._max_tree_nodes = max_tree_nodes
        self._max_prompt_logits = max_prompt_logits
        self._books = books
        self.num_dropped_trees = 0
        # nodes of all trees that were given rows
        self.num_nodes = 0

    def schedule(self, work: tuple[SequenceWork, ...]) -> list[ScheduledWork | WorkResult]:
        """One entry for each work entry: the rows to compute, or the result that says why none."""
        entries = [self._schedule_pending(entry) for entry in work]
        for entry in entries:
            if isinstance(entry, ScheduledWork) and entry.reaches_end and _has_nodes(entry.work):
                self._schedule_tree(entry)
        return entries

    def _schedule_pending(self, work: SequenceWork) -> ScheduledWork | WorkResult:
        sequence = self._sequences.get(work.request_id)
        if sequence is None or sequence.epoch != work.epoch or sequence.num_tokens != work.base_len:
            status = WorkStatus.NOT_FOUND if sequence is None else WorkStatus.STALE
            known_epoch = self._sequences.last_epoch(work.request_id)
            return WorkResult(work.request_id, work.epoch, status, known_epoch=known_epoch)
        start = sequence.num_computed
        num_rows = work.max_pending_rows
        if sequence.wants_prompt_logprobs:
            num_rows = min(num_rows, self._max_prompt_logits)
        # Without its grammar, only the last token's row has to wait.
        last = sequence.num_tokens if sequence.may_draw else sequence.num_tokens - 1
        end = min(last, start + num_rows)
        if start == end:
            return WorkResult(
                work.request_id, work.epoch, WorkStatus.DONE, num_computed_tokens=start
            )
        try:
            self._give_blocks(sequence, end)
        except OutOfBlocks:
            return WorkResult(
                work.request_id,
                work.epoch,
                WorkStatus.NO_BLOCKS,
                num_computed_tokens=sequence.num_computed,
            )
        return ScheduledWork(sequence, work, start, end)

    def _schedule_tree(self, entry: ScheduledWork) -> None:
        tree, sequence = entry.work.tree, entry.sequence
        if not is_usable(tree, self._vocab_size):
            self._count_dropped_tree(entry)
            return
        room = sequence.table.capacity + self._pool.num_available * self._block_size
        max_nodes = min(self._max_tree_nodes, room - sequence.num_tokens)
        entry.set_tree(tree, max_nodes=max_nodes)
        self._fit_tree(entry, max_nodes)
        self._give_blocks(sequence, sequence.num_tokens + len(entry.tree))
        self.num_nodes += len(entry.tree)

    def _fit_tree(self, entry: ScheduledWork, max_nodes: int) -> None:
        """Leave out what the sequence's grammar forbids, and add what it forces."""
        guide, num_nodes = entry.sequence.guide, len(entry.tree)
        if guide is None:
            return
        max_forced = min(entry.work.max_forced_nodes, max_nodes - num_nodes)
        fitted = guide.fit(entry.tree, max_forced=max_forced, max_depth=entry.max_depth)
        if fitted is None:
            return
        entry.take(fitted)
        num_allowed = len(entry.tree) - entry.num_forced_nodes
        self._books.num_forbidden_nodes += num_nodes - num_allowed

    def _give_blocks(self, sequence: Sequence, num_tokens: int) -> None:
        missing = sequence.table.num_missing(num_tokens)
        if missing:
            sequence.table.append(self._pool.allocate(missing))

    def _count_dropped_tree(self, entry: ScheduledWork) -> None:
        self.num_dropped_trees += 1
        if self.num_dropped_trees.bit_count() == 1:
            log.warning(
                "ignored malformed candidates for %s (%d so far)",
                entry.sequence.request_id,
                self.num_dropped_trees,
            )


def _has_nodes(work: SequenceWork) -> bool:
    return len(work.tree) > 0 or work.max_forced_nodes > 0
