"""What may be computed ahead of the next step, and what of it that step may use (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.step import SequenceWork
from dspark.verifier.scheduled_work import ScheduledWork
from dspark.verifier.sequence import Sequence


@dataclass(frozen=True, slots=True)
class AheadPass:
    """A pass that no step has asked for yet: one row for each entry.

    ``logits`` [num_entries, vocab_size] last until the model runs again. Times are those of
    time.perf_counter_ns.
    """

    entries: tuple[ScheduledWork, ...]
    logits: NDArray[np.float32]
    started_ns: int
    ended_ns: int

    @property
    def forward_ns(self) -> int:
        return self.ended_ns - self.started_ns

    def ns_before(self, moment_ns: int) -> int:
        """The part of the pass that was over at a moment."""
        return min(max(moment_ns - self.started_ns, 0), self.forward_ns)


def expected_work(sequences: Iterable[Sequence]) -> tuple[SequenceWork, ...]:
    """The work of a plain step for the sequences of which only the last token is pending."""
    return tuple(
        SequenceWork(sequence.request_id, sequence.epoch, sequence.num_tokens, max_pending_rows=1)
        for sequence in sequences
        if sequence.num_tokens - sequence.num_computed == 1
    )


def usable_rows(
    ahead: Seq[ScheduledWork], entries: Seq[ScheduledWork], *, whole_only: bool
) -> list[int | None]:
    """For each of a step's entries its row of the pass ahead, if that computed the same.

    Tokens and K/V of a sequence are never changed, only added to; so the same sequence object from
    the same start to the same end is the same row, whatever stands beside it. Where rows depend on
    their neighbours (``whole_only``), the entries must be those of the pass, in their order.
    """
    places = {entry.sequence.request_id: row for row, entry in enumerate(ahead)}
    rows: list[int | None] = []
    for entry in entries:
        row = places.get(entry.sequence.request_id)
        rows.append(row if row is not None and _is_same(ahead[row], entry) else None)
    if whole_only and rows != list(range(len(ahead))):
        return [None] * len(entries)
    return rows


def _is_same(ahead: ScheduledWork, entry: ScheduledWork) -> bool:
    is_same_place = (ahead.start, ahead.end) == (entry.start, entry.end)
    is_plain = not entry.tree and not entry.work.num_features
    return ahead.sequence is entry.sequence and is_same_place and is_plain
