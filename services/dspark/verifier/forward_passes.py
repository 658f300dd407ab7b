"""Runs the model for a step, or ahead of one: a step's rows may come from either pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.ahead import AheadPass, usable_rows
from dspark.verifier.batch_builder import build_batch
from dspark.verifier.feature_rows import (
    FeatureRows,
    feature_buffer,
    feature_rows,
    without_nodes,
)
from dspark.verifier.interfaces import ModelRunner
from dspark.verifier.pruning.pruner import Pruner
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
    features: FeatureRows = field(default_factory=dict)
    num_pruned_rows: int = 0


class ForwardPasses:
    """Keeps what was computed ahead until the next step, which uses it or drops it."""

    def __init__(self, runner: ModelRunner, pruner: Pruner, *, is_row_invariant: bool) -> None:
        self._runner = runner
        self._pruner = pruner
        self._is_row_invariant = is_row_invariant
        self._ahead: AheadPass | None = None
        # Rows that were computed ahead, by what became of them.
        self.num_used_rows = 0
        self.num_dropped_rows = 0

    def compute_ahead(self, entries: Sequence[ScheduledWork]) -> None:
        """Compute rows that the next step is expected to ask for: one an entry."""
        self._ahead = None
        done = self._forward(entries, ())
        self._ahead = AheadPass(tuple(entries), done.logits, done.started_ns, done.ended_ns)

    def compute(
        self, entries: Sequence[ScheduledWork], arrived_ns: int, layers: tuple[int, ...] = ()
    ) -> Computed:
        """The logits of a step that arrived at ``arrived_ns``, by time.perf_counter_ns.

        ``layers`` are those of the features that entries want; such entries are never taken from
        what was computed ahead. An entry from which nodes were pruned keeps the rest of its tree.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            rows = usable_rows(ahead.entries, entries, whole_only=not self._is_row_invariant)
            num_used = len(rows) - rows.count(None)
            self.num_used_rows += num_used
            self.num_dropped_rows += len(ahead.entries) - num_used
            if num_used:
                return self._use(ahead, rows, entries, arrived_ns, layers)
        return self._compute(entries, layers)

    def _compute(self, entries: Sequence[ScheduledWork], layers: tuple[int, ...]) -> Computed:
        if not entries:
            return Computed(np.empty((0, self._runner.vocab_size), dtype=np.float32))
        num_rows = sum(entry.num_rows for entry in entries)
        done = self._forward(entries, layers)
        num_pruned_rows = num_rows - sum(entry.num_rows for entry in entries)
        return Computed(
            done.logits,
            done.ended_ns - done.started_ns,
            features=done.features,
            num_pruned_rows=num_pruned_rows,
        )

    def _use(
        self,
        ahead: AheadPass,
        rows: Sequence[int | None],
        entries: Sequence[ScheduledWork],
        arrived_ns: int,
        layers: tuple[int, ...],
    ) -> Computed:
        """Rows of the pass ahead, and those that it lacks from a pass of their own."""
        rest = [entry for entry, row in zip(entries, rows, strict=True) if row is None]
        logits, forward_ns = ahead.logits, ahead.forward_ns
        features: FeatureRows = {}
        num_pruned_rows = 0
        if rows != list(range(len(ahead.entries))):
            # The model's next pass may overwrite what it returned before.
            logits = ahead.logits[[row for row in rows if row is not None]]
        if rest:
            own = self._compute(rest, layers)
            features, num_pruned_rows = own.features, own.num_pruned_rows
            forward_ns += own.forward_ns
            logits = _interleaved(entries, rows, logits, own.logits)
        num_ahead_rows = len(entries) - len(rest)
        ahead_ns = ahead.ns_before(arrived_ns)
        return Computed(logits, forward_ns, ahead_ns, num_ahead_rows, features, num_pruned_rows)

    def _forward(self, entries: Sequence[ScheduledWork], layers: tuple[int, ...]) -> _Pass:
        runner = self._runner
        buffer = feature_buffer(entries, layers, runner.hidden_size) if layers else None
        pruned = self._pruner.plan(entries) if _may_prune(entries) else None
        batch = build_batch(entries, buffer)
        started_ns = time.perf_counter_ns()
        logits = runner.forward(batch) if pruned is None else pruned.forward(batch)
        ended_ns = time.perf_counter_ns()
        features = feature_rows(entries, buffer)
        if pruned is not None:
            features = _drop_nodes(entries, pruned.kept_nodes(), features)
        expected = (sum(entry.num_logits for entry in entries), runner.vocab_size)
        assert logits.shape == expected, f"logits are {logits.shape}, not {expected}"
        return _Pass(logits, features, started_ns, ended_ns)


def _may_prune(entries: Sequence[ScheduledWork]) -> bool:
    """A pruner judges by the logits of a whole vocabulary, not by those that a grammar leaves."""
    return all(entry.sequence.guide is None for entry in entries)


class _Pass(NamedTuple):
    """What a pass gave, and when it began and ended."""

    logits: Logits
    features: FeatureRows
    started_ns: int
    ended_ns: int


def _drop_nodes(
    entries: Sequence[ScheduledWork], kept: Sequence[Sequence[int]], features: FeatureRows
) -> FeatureRows:
    """Leave the entries with the nodes that stayed in the pass; returns the features of these."""
    for entry, nodes in zip(entries, kept, strict=True):
        if len(nodes) < len(entry.tree):
            request_id = entry.sequence.request_id
            features = without_nodes(features, request_id, len(entry.tree), nodes)
            entry.drop_all_but(nodes)
    return features


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
