"""Runs the model for a step, or ahead of one: a step's rows may come from either pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.ahead import AheadPass, usable_rows
from dspark.verifier.batch_builder import build_batch
from dspark.verifier.interfaces import ModelRunner
from dspark.verifier.scheduled_work import ScheduledWork

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Computed:
    """What a step needed of the model; times and counts as in StepOutcome.

    ``logits`` [num_logits, vocab_size] follow the order of the entries, and last until the model
    runs again.
    """

    logits: Logits
    forward_ns: int = 0
    ahead_ns: int = 0
    num_ahead_rows: int = 0


class ForwardPasses:
    """Keeps what was computed ahead until the next step, which uses it or drops it."""

    def __init__(self, runner: ModelRunner, *, is_row_invariant: bool) -> None:
        self._runner = runner
        self._is_row_invariant = is_row_invariant
        self._ahead: AheadPass | None = None
        # Rows that were computed ahead, by what became of them.
        self.num_used_rows = 0
        self.num_dropped_rows = 0

    def compute_ahead(self, entries: Sequence[ScheduledWork]) -> None:
        """Compute rows that the next step is expected to ask for: one an entry."""
        self._ahead = None
        self._ahead = AheadPass(tuple(entries), *self._forward(entries))

    def compute(self, entries: Sequence[ScheduledWork], arrived_ns: int) -> Computed:
        """The logits of a step that arrived at ``arrived_ns``, by time.perf_counter_ns."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            rows = usable_rows(ahead.entries, entries, whole_only=not self._is_row_invariant)
            num_used = len(rows) - rows.count(None)
            self.num_used_rows += num_used
            self.num_dropped_rows += len(ahead.entries) - num_used
            if num_used:
                return self._use(ahead, rows, entries, arrived_ns)
        return self._compute(entries)

    def _compute(self, entries: Sequence[ScheduledWork]) -> Computed:
        if not entries:
            return Computed(np.empty((0, self._runner.vocab_size), dtype=np.float32))
        logits, started_ns, ended_ns = self._forward(entries)
        return Computed(logits, ended_ns - started_ns)

    def _use(
        self,
        ahead: AheadPass,
        rows: Sequence[int | None],
        entries: Sequence[ScheduledWork],
        arrived_ns: int,
    ) -> Computed:
        """Rows of the pass ahead, and those that it lacks from a pass of their own."""
        rest = [entry for entry, row in zip(entries, rows, strict=True) if row is None]
        logits, forward_ns = ahead.logits, ahead.forward_ns
        if rows != list(range(len(ahead.entries))):
            # The model's next pass may overwrite what it returned before.
            logits = ahead.logits[[row for row in rows if row is not None]]
        if rest:
            own = self._compute(rest)
            forward_ns += own.forward_ns
            logits = _interleaved(entries, rows, logits, own.logits)
        num_ahead_rows = len(entries) - len(rest)
        return Computed(logits, forward_ns, ahead.ns_before(arrived_ns), num_ahead_rows)

    def _forward(self, entries: Sequence[ScheduledWork]) -> tuple[Logits, int, int]:
        """The logits, and when the pass began and ended."""
        batch = build_batch(entries)
        started_ns = time.perf_counter_ns()
        logits = self._runner.forward(batch)
        ended_ns = time.perf_counter_ns()
        expected = (len(batch.logits_rows), self._runner.vocab_size)
        assert logits.shape == expected, f"logits are {logits.shape}, not {expected}"
        return logits, started_ns, ended_ns


def _interleaved(
    entries: Sequence[ScheduledWork], rows: Sequence[int | None], ahead: Logits, own: Logits
) -> Logits:
    """Logits of both passes, each in the order of the entries, in the order of all entries."""
    parts: list[Logits] = []
    first_ahead = first_own = 0
    for entry, row in zip(entries, rows, strict=True):
        if row is None:
            parts.append(own[first_own : first_own + entry.num_logits])
            first_own += entry.num_logits
        else:
            parts.append(ahead[first_ahead : first_ahead + 1])
            first_ahead += 1
    return np.concatenate(parts)
