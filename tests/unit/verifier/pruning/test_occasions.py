"""Passes are cut where the measured costs say that it pays, and audited now and then."""

from __future__ import annotations

import pytest

from dspark.verifier.pruning.occasions import (
    AUDIT_INTERVAL,
    LEARNING_INTERVAL,
    EveryPass,
    Occasion,
    WhereItPays,
)
from dspark.verifier.pruning.savings import CutCost, savings_of

# 4 layers and a head, all of which cost by rows; a cut costs half a millisecond.
LINEAR = savings_of([CutCost(rows, 10.0 * rows, 2.0 * rows, 0.5) for rows in (1, 8, 64)])
# Up to 16 rows cost the same.
STAIRS = savings_of(
    [CutCost(8, 40.0, 8.0, 0.5), CutCost(16, 40.0, 8.0, 0.5), CutCost(32, 80.0, 16.0, 0.5)]
)


def test_what_is_left_behind_the_cut_is_saved() -> None:
    # Behind layer 1 of 4, 8 of 10 ms a row are left.
    assert LINEAR.saved_ms(1, 8, 6) == pytest.approx(2 * 8.0 - 0.5)
    assert LINEAR.saved_ms(3, 8, 6) == pytest.approx(2 * 4.0 - 0.5)
    assert LINEAR.saved_ms(1, 8, 8) == -0.5


def test_rows_inside_a_stair_save_nothing() -> None:
    assert STAIRS.saved_ms(1, 16, 8) == -0.5
    assert STAIRS.saved_ms(1, 32, 16) == pytest.approx(80 - 16 - (40 - 8) - 0.5)


def test_noise_of_the_measurement_saves_nothing() -> None:
    savings = savings_of([CutCost(8, 50.0, 9.0, -0.2), CutCost(16, 40.0, 8.0, 0.5)])
    assert savings.saved_ms(1, 16, 8) == -0.5
    assert savings.saved_ms(1, 8, 8) == 0.0


def test_outside_of_what_was_measured_nothing_more_is_saved() -> None:
    assert LINEAR.saved_ms(1, 1000, 64) == -0.5
    assert LINEAR.pass_ms(1000) == 640.0


def test_passes_that_cannot_gain_are_not_looked_at() -> None:
    occasions = WhereItPays(STAIRS, [1, 3], max_loss=0.01)
    looks = 2 * LEARNING_INTERVAL
    assert [occasions.next(16, 15, (1, 3)) for _ in range(looks)] == [None] * looks
    assert occasions.hopes(16, 15) == [] and occasions.hopes(32, 31) == [1, 3]


def test_layers_are_audited_now_and_then_and_more_often_at_first() -> None:
    occasions = WhereItPays(LINEAR, [1, 3], max_loss=0.01)
    first = [occasions.next(64, 48, ()) for _ in range(4 * LEARNING_INTERVAL)]
    audits = [occasion for occasion in first if occasion is not None]
    assert len(audits) == 4 and all(occasion.is_audit for occasion in audits)
    assert {occasion.layer for occasion in audits} == {1, 3}
    occasions.note(1, 48, 20, 0.0)
    occasions.note(3, 48, 40, 0.0)
    later = [occasions.next(64, 48, (1, 3)) for _ in range(4 * AUDIT_INTERVAL)]
    audits = [occasion for occasion in later if occasion is not None and occasion.is_audit]
    assert len(audits) == 4
    assert {occasion.layer for occasion in audits} == {1, 3}


def test_a_layer_that_is_known_is_used_while_another_is_learnt() -> None:
    occasions = WhereItPays(LINEAR, [1, 3], max_loss=0.01)
    occasions.note(1, 48, 20, 0.0)
    found = {occasions.next(64, 48, (1,)) for _ in range(LEARNING_INTERVAL)}
    assert found == {Occasion(1, False), Occasion(3, True)}


def cuts(occasions: WhereItPays) -> set[Occasion | None]:
    found = {occasions.next(64, 48, (1, 3)) for _ in range(2 * AUDIT_INTERVAL)}
    return {occasion for occasion in found if occasion is None or not occasion.is_audit}


def test_the_layer_that_saves_most_is_taken() -> None:
    occasions = WhereItPays(LINEAR, [1, 3], max_loss=0.01)
    # An eighth leaves behind layer 1, half behind layer 3: 6 rows of 8 ms, 24 rows of 4 ms.
    occasions.note(1, 48, 6, 0.0)
    occasions.note(3, 48, 24, 0.0)
    assert cuts(occasions) == {Occasion(3, False)}
    for _ in range(60):
        occasions.note(1, 48, 40, 0.0)
    assert cuts(occasions) == {Occasion(1, False)}


def test_nothing_is_cut_where_little_leaves_or_choosing_takes_too_long() -> None:
    occasions = WhereItPays(LINEAR, [1, 3], max_loss=0.01)
    occasions.note(1, 48, 0, 0.0)
    occasions.note(3, 48, 1, 0.0)
    assert cuts(occasions) == {None}
    slow = WhereItPays(LINEAR, [1, 3], max_loss=0.01)
    for _ in range(60):
        slow.note(1, 48, 24, 500.0)
    assert cuts(slow) == {None}


def test_rows_are_only_dropped_for_a_gain() -> None:
    occasions = WhereItPays(LINEAR, [1], max_loss=0.01)
    # A hundredth of the accepted tokens is worth a hundredth of the pass: 6.4 ms.
    assert not occasions.is_worth(1, 64, 64)
    assert occasions.is_worth(1, 64, 63)
    assert not WhereItPays(LINEAR, [1], max_loss=0.2).is_worth(1, 64, 63)


def test_a_fixed_layer_is_cut_in_every_pass() -> None:
    occasions = EveryPass(2)
    assert occasions.layers == (2,)
    assert occasions.next(4, 1, ()) == Occasion(2, is_audit=True)
    found = [occasions.next(4, 1, (2,)) for _ in range(2 * AUDIT_INTERVAL)]
    assert sum(occasion.is_audit for occasion in found if occasion) == 2
    assert all(occasion is not None and occasion.layer == 2 for occasion in found)
    assert occasions.is_worth(2, 4, 4)
