"""Sources are asked as long as they bring more than their time is worth."""

from __future__ import annotations

from dspark.scheduler.source_values import (
    FIRST_PAUSE,
    MAX_WAIT,
    TRIAL_ASKINGS,
    SourceValues,
)
from dspark.token_tree import TokenTree

NAMES = ("cheap", "dear")
MS = {"cheap": 0.1, "dear": 5.0}
PRICE = 0.05


def tree(mask: int) -> TokenTree:
    return TokenTree((1,), (0,), (mask,), (0.5,), NAMES)


def run(values: SourceValues, rounds: int, mask: int, accepted: int, every: int = 1) -> None:
    """So many rounds that ask for both, of which one in ``every`` accepts the node."""
    for number in range(rounds):
        right = (accepted,) if accepted and number % every == 0 else ()
        values.asked(NAMES)
        values.credit(tree(mask), right, MS)


def test_a_new_source_is_tried() -> None:
    assert SourceValues().worth(NAMES, MS, PRICE, 0) == NAMES
    values = SourceValues()
    run(values, TRIAL_ASKINGS - 1, mask=1, accepted=1)
    assert values.worth(NAMES, MS, PRICE, 1) == NAMES
    assert not values.is_proven("dear")
    run(values, 1, mask=1, accepted=1)
    assert values.is_proven("dear")


def test_a_dear_source_is_tried_now_and_then_by_one_request() -> None:
    values, tried = SourceValues(), []
    for step in range(200):
        for request_id in ("a", "b", "c"):
            names = values.worth(NAMES, MS, 1.0, step, request_id)
            # What is asked is worked out in the step before as well.
            assert names == values.worth(NAMES, MS, 1.0, step, request_id)
            assert "cheap" in names
            values.asked(names, step)
            values.credit(tree(1), (1,), MS)
            tried += [step] * ("dear" in names)
    assert tried == list(range(0, 200, 10)), "5 ms at 1 a ms: 5 tokens"


def test_one_that_does_not_make_its_trial_is_not_waited_for() -> None:
    values = SourceValues()
    assert values.worth(NAMES, MS, 1.0, 0, "ended") == NAMES
    names = [values.worth(NAMES, MS, 1.0, step, "goes on") for step in range(2 * MAX_WAIT)]
    assert ("cheap",) in names and names[-1] == NAMES


def test_a_source_is_tried_to_the_end_at_any_price() -> None:
    values, step = SourceValues(), 0
    while not values.is_proven("dear"):
        values.asked(values.worth(NAMES, MS, 10.0, step, "a"), step)
        step += 1
    assert step <= TRIAL_ASKINGS * 500


def test_a_dear_source_that_adds_nothing_is_left_out() -> None:
    values = SourceValues()
    run(values, 100, mask=0b11, accepted=1)
    assert values.worth(NAMES, MS, PRICE, 0) == ("cheap",), "the cheap one said it as well"


def test_a_dear_source_that_adds_enough_stays() -> None:
    values = SourceValues()
    run(values, 100, mask=0b10, accepted=1, every=2)
    assert values.worth(NAMES, MS, PRICE, 0) == ("dear",), "0.5 tokens for 5 ms at 0.05 a ms"
    assert SourceValues().worth(NAMES, MS, PRICE, 0) == NAMES


def test_the_price_decides() -> None:
    dear_times = []
    for price in (0.05, 0.5):
        values = SourceValues()
        run(values, 100, mask=0b10, accepted=1, every=2)
        dear_times.append("dear" in values.worth(NAMES, MS, price, 0))
    assert dear_times == [True, False]


def test_a_source_of_unknown_cost_is_asked() -> None:
    values = SourceValues()
    run(values, 100, mask=1, accepted=1)
    assert "dear" in values.worth(NAMES, {"cheap": 0.1}, PRICE, 0)


def test_one_that_is_left_out_is_tried_again_and_then_later() -> None:
    values, step, pauses = SourceValues(), 0, []
    for _ in range(3):
        run(values, 100, mask=1, accepted=1)
        assert values.worth(NAMES, MS, PRICE, step) == ("cheap",)
        start = step
        while values.worth(NAMES, MS, PRICE, step) == ("cheap",):
            step += 1
        pauses.append(step - start)
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]


def test_where_all_are_left_out_they_come_back_all_the_same() -> None:
    values = SourceValues()
    run(values, 100, mask=1, accepted=0)
    assert values.worth(NAMES, MS, PRICE, 7) == ()
    assert values.worth(NAMES, MS, PRICE, 7 + FIRST_PAUSE) == NAMES


def test_a_source_that_was_not_asked_is_not_blamed() -> None:
    values = SourceValues()
    for _ in range(100):
        values.asked(("cheap",))
        values.credit(tree(1), (1,), MS)
    assert values.worth(NAMES, MS, PRICE, 0) == NAMES


def test_askings_whose_tree_is_not_verified_count_as_well() -> None:
    values = SourceValues()
    for number in range(200):
        values.asked(NAMES)
        if number % 20 == 0:
            values.credit(tree(0b10), (1,), MS)
    assert "dear" not in values.worth(NAMES, MS, PRICE, 0), "0.05 tokens for 5 ms"
