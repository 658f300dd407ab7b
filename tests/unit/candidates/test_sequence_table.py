"""Faults 23, 24 and 27: stale epochs and lengths, repeats, early cancels, orphans."""

from __future__ import annotations

import pytest

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sequence_table import MAX_TOMBSTONES, SequenceTable
from dspark.proposal import ProposeItem, SequenceEnd, SequenceUpdate


class Recorder:
    """A table with a clock of its own, and what it told its listeners."""

    def __init__(self) -> None:
        self.now = 0.0
        self.commits: list[tuple[str, int, tuple[int, ...]]] = []
        self.releases: list[tuple[str, int, bool]] = []
        self.table = SequenceTable(
            self._on_commit,
            self._on_release,
            lease_s=10.0,
            max_sequences=3,
            clock=lambda: self.now,
        )

    def _on_commit(self, sequence: LiveSequence, token_ids: tuple[int, ...]) -> None:
        assert tuple(sequence.token_ids[-len(token_ids) :]) == token_ids
        self.commits.append((sequence.request_id, sequence.epoch, token_ids))

    def _on_release(self, sequence: LiveSequence, completed: bool) -> None:
        self.releases.append((sequence.request_id, sequence.epoch, completed))

    def tokens(self, request_id: str, epoch: int, base_len: int) -> list[int] | None:
        found = self.table.find(ProposeItem(request_id, epoch, base_len, 1, 1))
        return None if found is None else found.token_ids


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def update(epoch: int, base_len: int, *token_ids: int, request_id: str = "r") -> SequenceUpdate:
    return SequenceUpdate(request_id, epoch, base_len, token_ids, num_prompt_tokens=2)


def test_starts_and_appends(recorder: Recorder) -> None:
    assert recorder.table.apply(update(0, 0, 1, 2))
    assert recorder.table.apply(update(0, 2, 3))
    assert recorder.tokens("r", 0, 3) == [1, 2, 3]
    assert recorder.commits == [("r", 0, (1, 2)), ("r", 0, (3,))]


@pytest.mark.parametrize("repeat", [(0, 1, 2), (2, 3), (0, 1), (1, 2, 3), (2,)])
def test_a_repeat_changes_nothing(recorder: Recorder, repeat: tuple[int, ...]) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    recorder.table.apply(update(0, 2, 3))
    assert recorder.table.apply(update(0, *repeat))
    assert recorder.tokens("r", 0, 3) == [1, 2, 3]
    assert recorder.commits == [("r", 0, (1, 2)), ("r", 0, (3,))]


def test_an_overlap_appends_only_what_is_new(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    assert recorder.table.apply(update(0, 1, 2, 3, 4))
    assert recorder.tokens("r", 0, 4) == [1, 2, 3, 4]
    assert recorder.commits[-1] == ("r", 0, (3, 4))


def test_a_gap_means_send_it_whole(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    assert not recorder.table.apply(update(0, 3, 4))
    assert recorder.tokens("r", 0, 2) == [1, 2]


def test_an_unknown_sequence_means_send_it_whole(recorder: Recorder) -> None:
    assert not recorder.table.apply(update(0, 3, 4))
    assert not recorder.table.apply(update(0, 0))
    assert len(recorder.table) == 0


def test_contradiction_of_a_committed_token_drops_the_sequence(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    assert not recorder.table.apply(update(0, 1, 9))
    assert recorder.releases == [("r", 0, False)]
    assert recorder.tokens("r", 0, 2) is None


def test_length_zero_starts_anew(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    assert recorder.table.apply(update(0, 0, 7, 8, 9))
    assert recorder.tokens("r", 0, 3) == [7, 8, 9]
    assert recorder.releases == [("r", 0, False)]


def test_a_new_epoch_replaces_the_old_one(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, 2))
    assert not recorder.table.apply(update(1, 2, 3))
    assert recorder.table.apply(update(1, 0, 1, 2, 3))
    assert recorder.tokens("r", 1, 3) == [1, 2, 3]
    assert recorder.tokens("r", 0, 2) is None


def test_late_messages_of_an_old_epoch_are_ignored(recorder: Recorder) -> None:
    recorder.table.apply(update(2, 0, 1, 2, 3))
    assert recorder.table.apply(update(1, 0, 9, 9))
    assert recorder.table.apply(update(1, 3, 9))
    recorder.table.end(SequenceEnd("r", 1, completed=True))
    assert recorder.tokens("r", 2, 3) == [1, 2, 3]
    assert recorder.releases == []


@pytest.mark.parametrize(("epoch", "base_len"), [(0, 2), (2, 2), (1, 1), (1, 3)])
def test_another_epoch_or_length_than_asked_for_is_not_found(
    recorder: Recorder, epoch: int, base_len: int
) -> None:
    recorder.table.apply(update(1, 0, 1, 2))
    assert recorder.tokens("r", epoch, base_len) is None


def test_the_end_says_whether_the_text_may_be_learnt(recorder: Recorder) -> None:
    for request_id in "ab":
        recorder.table.apply(update(0, 0, 1, request_id=request_id))
    recorder.table.end(SequenceEnd("a", 0, completed=True))
    recorder.table.end(SequenceEnd("b", 0, completed=False))
    assert recorder.releases == [("a", 0, True), ("b", 0, False)]


def test_the_end_of_a_newer_epoch_than_known_releases_but_teaches_nothing(
    recorder: Recorder,
) -> None:
    recorder.table.apply(update(0, 0, 1))
    recorder.table.end(SequenceEnd("r", 1, completed=True))
    assert recorder.releases == [("r", 0, False)]


def test_a_cancel_that_overtakes_its_request_wins(recorder: Recorder) -> None:
    recorder.table.end(SequenceEnd("r", 1, completed=False))
    assert recorder.table.apply(update(1, 0, 1, 2))
    assert len(recorder.table) == 0
    assert recorder.table.apply(update(2, 0, 1, 2))
    assert len(recorder.table) == 1


def test_tombstones_vanish_with_the_lease_and_are_bounded(recorder: Recorder) -> None:
    recorder.table.end(SequenceEnd("r", 0, completed=False))
    recorder.now += 10.0
    recorder.table.reclaim()
    assert recorder.table.apply(update(0, 0, 1))
    assert len(recorder.table) == 1
    for number in range(MAX_TOMBSTONES + 1):
        recorder.table.end(SequenceEnd(f"x{number}", 0, completed=False))
    assert recorder.table.apply(update(0, 0, 1, request_id="x0"))
    assert len(recorder.table) == 2
    assert recorder.table.apply(update(0, 0, 1, request_id="x1"))
    assert len(recorder.table) == 2


def test_what_nobody_used_for_a_lease_is_released(recorder: Recorder) -> None:
    recorder.table.apply(update(0, 0, 1, request_id="idle"))
    recorder.table.apply(update(0, 0, 1, request_id="busy"))
    recorder.now += 6.0
    assert recorder.tokens("busy", 0, 1) == [1]
    recorder.now += 6.0
    assert recorder.table.reclaim() == 1
    assert recorder.releases == [("idle", 0, False)]
    assert recorder.table.reclaim() == 0


def test_the_longest_unused_makes_room(recorder: Recorder) -> None:
    for request_id in "abc":
        recorder.table.apply(update(0, 0, 1, request_id=request_id))
    recorder.tokens("a", 0, 1)
    recorder.table.apply(update(0, 0, 1, request_id="d"))
    assert [sequence.request_id for sequence in recorder.table] == ["c", "a", "d"]
    assert recorder.releases == [("b", 0, False)]


def test_a_sequence_keeps_how_its_tokens_are_drawn(recorder: Recorder) -> None:
    assert recorder.table.apply(SequenceUpdate("r", 1, 0, (1, 2), 2, "", 0.7, 2**64 - 1))
    assert recorder.table.apply(SequenceUpdate("r", 1, 2, (3,)))
    sequence = recorder.table.get("r")
    assert sequence is not None
    assert (sequence.temperature, sequence.seed) == (0.7, 2**64 - 1)
    assert recorder.table.apply(SequenceUpdate("r", 2, 0, (1, 2, 3, 4), 2, "", 0.3, 5))
    restarted = recorder.table.get("r")
    assert restarted is not None
    assert (restarted.temperature, restarted.seed) == (0.3, 5)
