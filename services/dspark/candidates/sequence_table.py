"""The live sequences: applies updates, knows what is stale, and forgets what nobody uses."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from dspark.candidates.sequence import LiveSequence
from dspark.proposal import ProposeItem, SequenceEnd, SequenceUpdate

MAX_TOMBSTONES = 4096


class SequenceTable:
    """Sequences by request id, least recently used first.

    ``on_commit(sequence, new tokens)`` and ``on_release(sequence, completed)`` are told of each
    change. A release that overtakes its sequence leaves a tombstone for a lease, so that the late
    sequence is not kept; a sequence that nobody used for a lease is released.
    """

    def __init__(
        self,
        on_commit: Callable[[LiveSequence, tuple[int, ...]], None],
        on_release: Callable[[LiveSequence, bool], None],
        *,
        lease_s: float,
        max_sequences: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_commit = on_commit
        self._on_release = on_release
        self._lease_s = lease_s
        self._max_sequences = max_sequences
        self._clock = clock
        self._live: OrderedDict[str, LiveSequence] = OrderedDict()
        # request id -> (epoch, time of the release)
        self._tombstones: OrderedDict[str, tuple[int, float]] = OrderedDict()
        # released because their lease ran out, and because there were too many
        self.num_reclaimed = 0
        self.num_evicted = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[LiveSequence]:
        return iter(self._live.values())

    def get(self, request_id: str) -> LiveSequence | None:
        return self._live.get(request_id)

    def apply(self, update: SequenceUpdate) -> bool:
        """Append or start anew; False when the sequence must be sent whole. Repeats and stale
        epochs are no-ops.
        """
        known = self._live.get(update.request_id)
        if self._is_stale(update, known):
            return True
        if known is not None and self._extends(update, known):
            self._append(known, update.token_ids[len(known) - update.base_len :])
            return True
        if update.base_len == 0:
            return self._start(update, known)
        if known is not None and known.epoch == update.epoch and update.base_len < len(known):
            # A committed token never changes: one of the two sides is wrong about it.
            self._drop(known, completed=False)
        return False

    def find(self, item: ProposeItem) -> LiveSequence | None:
        """The sequence the item means, if it is known in that epoch and at that length."""
        known = self._live.get(item.request_id)
        if known is None or known.epoch != item.epoch or len(known) != item.base_len:
            return None
        self._touch(known)
        return known

    def end(self, end: SequenceEnd) -> None:
        """Release the sequence; one of an older epoch than known is ignored."""
        known = self._live.get(end.request_id)
        if known is None or known.epoch < end.epoch:
            self._bury(end)
        if known is not None and known.epoch <= end.epoch:
            self._drop(known, completed=end.completed and end.epoch == known.epoch)

    def reclaim(self) -> int:
        """Release sequences whose lease ran out; returns how many."""
        expired = self._clock() - self._lease_s
        reclaimed = 0
        while self._live and (oldest := next(iter(self._live.values()))).last_used <= expired:
            self._drop(oldest, completed=False)
            reclaimed += 1
        self.num_reclaimed += reclaimed
        while self._tombstones and next(iter(self._tombstones.values()))[1] <= expired:
            self._tombstones.popitem(last=False)
        return reclaimed

    def _is_stale(self, update: SequenceUpdate, known: LiveSequence | None) -> bool:
        if known is not None:
            return update.epoch < known.epoch
        tombstone = self._tombstones.get(update.request_id)
        return tombstone is not None and update.epoch <= tombstone[0]

    @staticmethod
    def _extends(update: SequenceUpdate, known: LiveSequence) -> bool:
        """Whether the update's tokens agree with the known ones where the two overlap."""
        if known.epoch != update.epoch or update.base_len > len(known):
            return False
        overlap = known.token_ids[update.base_len : update.base_len + len(update.token_ids)]
        return tuple(overlap) == update.token_ids[: len(overlap)]

    def _start(self, update: SequenceUpdate, known: LiveSequence | None) -> bool:
        if not update.token_ids:
            return False
        if known is not None:
            self._drop(known, completed=False)
        sequence = LiveSequence(
            update.request_id,
            update.epoch,
            update.cache_salt,
            update.num_prompt_tokens,
            temperature=update.temperature,
            seed=update.seed,
        )
        self._live[update.request_id] = sequence
        if len(self._live) > self._max_sequences:
            self._drop(next(iter(self._live.values())), completed=False)
            self.num_evicted += 1
        self._append(sequence, update.token_ids)
        return True

    def _append(self, sequence: LiveSequence, token_ids: tuple[int, ...]) -> None:
        self._touch(sequence)
        if token_ids:
            sequence.token_ids.extend(token_ids)
            self._on_commit(sequence, token_ids)

    def _touch(self, sequence: LiveSequence) -> None:
        sequence.last_used = self._clock()
        self._live.move_to_end(sequence.request_id)

    def _drop(self, sequence: LiveSequence, *, completed: bool) -> None:
        del self._live[sequence.request_id]
        self._on_release(sequence, completed)

    def _bury(self, end: SequenceEnd) -> None:
        epoch, _ = self._tombstones.get(end.request_id, (end.epoch, 0.0))
        self._tombstones[end.request_id] = (max(epoch, end.epoch), self._clock())
        self._tombstones.move_to_end(end.request_id)
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
