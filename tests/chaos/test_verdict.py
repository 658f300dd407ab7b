"""The judge of the chaos tests sees what a client would."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.chaos.fronts import read_events
from harness.chaos.outcome import Answer, BrokenProtocol, Outcome
from harness.chaos.stream_spec import StreamSpec
from harness.chaos.verdict import judge

SPEC = StreamSpec("s0", "sse", "ab", max_tokens=4, temperature=0.0, seed=1)
TWIN = Answer(10.0, [1, 2, 3, 4], "abcd", "length", None, 4, [10.1, 10.2])


def violations(outcome: Outcome, *gateway_downs: float) -> tuple[str, ...]:
    return judge([outcome], {"s0": TWIN}, gateway_downs).violations


def test_an_equal_answer_is_none() -> None:
    verdict = judge([Outcome(SPEC, replace(TWIN, arrivals=[11.0, 11.5]))], {"s0": TWIN}, ())
    assert (verdict.violations, verdict.num_identical) == ((), 1)
    assert verdict.longest_pause == (1.0, 10.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token_ids": [1, 2, 2, 3, 4]}, "token 2 of 5 differs"),
        ({"token_ids": [1, 2, 4]}, "token 2 of 3 differs"),
        ({"token_ids": [1, 3, 2, 4]}, "token 1 of 4 differs"),
        ({"token_ids": [1, 2, 3, 4, 5]}, "token 4 of 5 differs"),
        ({"token_ids": [1, 2, 3]}, "ended as length (None) with 3 tokens"),
        ({"text": "abd"}, "the text differs"),
        ({"text": "abc"}, "ended as"),
        ({"finish_reason": "stop", "stop_reason": "d"}, "ended as stop ('d')"),
        ({"completion_tokens": 5}, "5 counted"),
    ],
)
def test_any_difference_is_one(changes: dict[str, object], words: str) -> None:
    (found,) = violations(Outcome(SPEC, replace(TWIN, **changes)))  # type: ignore[arg-type]
    assert words in found


def test_a_beginning_is_enough_for_a_client_that_hung_up() -> None:
    beginning = Answer(10.0, [1, 2], "ab")
    assert not violations(Outcome(SPEC, beginning, hung_up=True))
    assert violations(Outcome(SPEC, replace(beginning, token_ids=[2]), hung_up=True))


def test_an_error_is_one() -> None:
    assert "it hangs" in violations(Outcome(SPEC, Answer(), error="it hangs"))[0]


def test_a_broken_connection_is_excused_only_by_a_gateway_that_went() -> None:
    outcome = Outcome(SPEC, TWIN, broken=[(20.0, Answer(12.0, [1], "a"))])
    assert not violations(outcome, 15.0)
    assert "no gateway went" in violations(outcome)[0]
    assert "no gateway went" in violations(outcome, 21.0)[0]
    wrong = Outcome(SPEC, TWIN, broken=[(20.0, Answer(12.0, [7], "a"))])
    assert "differs" in violations(wrong, 15.0)[0]


def text_event(text: str, finish_reason: str | None = None) -> str:
    choice = {"text": text, "token_ids": [1], "finish_reason": finish_reason, "stop_reason": None}
    if finish_reason:
        choice["token_ids"] = []
    return "data: " + json.dumps({"choices": [choice]})


USAGE = "data: " + json.dumps({"choices": [], "usage": {"completion_tokens": 1}})
DONE = "data: [DONE]"


async def read(*lines: str) -> Answer:
    async def source():  # type: ignore[no-untyped-def]
        for line in lines:
            yield line

    answer = Answer()
    await read_events(source(), answer)
    return answer


async def test_a_stream_in_good_order() -> None:
    answer = await read(text_event("a"), "", text_event("", "length"), USAGE, DONE)
    assert answer.essence == ((1,), "a", "length", None, 1)


@pytest.mark.parametrize(
    "lines",
    [
        (text_event("a"), text_event("", "length"), USAGE),
        (text_event("a"), text_event("", "length"), DONE),
        (text_event("a"), USAGE, text_event("", "length"), DONE),
        (text_event("", "length"), text_event("", "length"), USAGE, DONE),
        (text_event("", "length"), text_event("a"), USAGE, DONE),
        (text_event("a"), text_event("", "length"), USAGE, DONE, DONE),
        (text_event("a"), text_event("", "length"), USAGE, USAGE, DONE),
    ],
)
async def test_a_stream_out_of_order_is_noticed(lines: tuple[str, ...]) -> None:
    with pytest.raises(BrokenProtocol):
        await read(*lines)
