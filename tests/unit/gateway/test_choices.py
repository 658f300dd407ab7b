"""Which requests the choices of a request are, and how their streams become one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from dspark.errors import Draining, InvalidArgument, QueueFull
from dspark.gateway.choice_streams import ChoiceStream, interleaved
from dspark.gateway.choices import check_choices, choice_requests, choice_seed
from dspark.gateway.generation_events import Completed, Event
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_source import GenerationRequest
from dspark.sampling import FinishReason, SamplingParams, Usage

# What clients have written down: these may never change.
KNOWN_SEEDS = {
    (0, 0): 0,
    (0, 1): 3332070951739599926,
    (7, 1): 7397241826368841993,
    (7, 2): 8457516230360551947,
    (2**64 - 1, 0): 2**64 - 1,
    (2**64 - 1, 127): 8798714541793326504,
}


def request(name: str, *prompt: int, seed: int = 7) -> GenerationRequest:
    return GenerationRequest(name, prompt, SamplingParams(seed=seed))


@pytest.mark.parametrize(("given", "expected"), KNOWN_SEEDS.items())
def test_the_derivation_of_seeds_is_fixed(given: tuple[int, int], expected: int) -> None:
    assert choice_seed(*given) == expected


def test_seeds_of_choices_differ() -> None:
    seeds = {choice_seed(seed, index) for seed in range(20) for index in range(128)}
    assert len(seeds) == 20 * 128
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_choices_are_those_of_the_first_prompt_then_those_of_the_next() -> None:
    requests = choice_requests([request("r", 1), request("r", 2, seed=99)], 2)
    assert [r.prompt_token_ids for r in requests] == [(1,), (1,), (2,), (2,)]
    assert [r.request_id for r in requests] == ["r", "r-1", "r-2", "r-3"]
    assert [r.sampling.seed for r in requests] == [choice_seed(7, i) for i in range(4)]
    assert [r.beside for r in requests] == ["", "r", "", "r-2"]


def test_one_choice_is_the_request_itself() -> None:
    only = request("r", 1)
    assert choice_requests([only], 1) == [only]


@pytest.mark.parametrize(
    ("num_prompts", "n", "field"),
    [(1, 0, "n"), (1, -1, "n"), (1, 9, "n"), (3, 3, "n"), (9, 1, "prompt"), (9, 9, "prompt")],
)
def test_too_many_choices_are_refused_by_name(num_prompts: int, n: int, field: str) -> None:
    check_choices(1, 8, 8)
    check_choices(8, 1, 8)
    with pytest.raises(InvalidArgument) as caught:
        check_choices(num_prompts, n, 8)
    assert caught.value.field == field


class Played:
    """Streams of one event for each character of a text; it notes which were closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    async def stream(self, text: str, error: Exception | None = None) -> AsyncGenerator[Event]:
        try:
            for character in text:
                await asyncio.sleep(0)
                yield TextChunk(character)
            if error is not None:
                raise error
            if text.endswith("…"):
                await asyncio.Event().wait()
        finally:
            self.closed.append(text)


async def test_each_choice_keeps_its_order() -> None:
    played = Played()
    streams = [ChoiceStream(played.stream(text)) for text in ("abc", "", "xyz" * 20)]
    texts = ["", "", ""]
    async for item in interleaved(streams):
        assert isinstance(item.event, TextChunk)
        texts[item.index] += item.event.text
    assert texts == ["abc", "", "xyz" * 20]
    assert len(played.closed) == 3


async def test_a_choice_begins_when_the_prompt_of_the_first_is_computed() -> None:
    played, computed = Played(), asyncio.Event()
    first = ChoiceStream(played.stream("ab"), computed=computed)
    second = ChoiceStream(played.stream("cd"), after=computed)
    events = [item async for item in interleaved([second, first])]
    assert (events[0].index, events[0].event) == (1, TextChunk("a"))
    assert len(events) == 4


async def test_an_end_without_tokens_lets_the_other_choices_begin() -> None:
    async def nothing() -> AsyncGenerator[Event]:
        yield Completed(FinishReason.STOP, None, Usage(1, 0), None, None)

    played, computed = Played(), asyncio.Event()
    second = ChoiceStream(played.stream("cd"), after=computed)
    async with asyncio.timeout(5):
        merged = interleaved([ChoiceStream(nothing(), computed=computed), second])
        assert [item.index async for item in merged] == [0, 1, 1]


async def test_a_failure_ends_all_choices() -> None:
    played = Played()
    streams = [played.stream("ab…"), played.stream("c", QueueFull("full")), played.stream("d…")]
    with pytest.raises(QueueFull):
        async for _ in interleaved([ChoiceStream(stream) for stream in streams]):
            pass
    assert sorted(played.closed) == ["ab…", "c", "d…"]


async def test_leaving_the_stream_closes_all_choices() -> None:
    played = Played()
    merged = interleaved([ChoiceStream(played.stream(text)) for text in ("ab…", "cd…")])
    await anext(merged)
    await merged.aclose()
    assert sorted(played.closed) == ["ab…", "cd…"]


async def test_a_choice_whose_task_is_cancelled_ends_all_with_an_error() -> None:
    async def cancelled() -> AsyncGenerator[Event]:
        task = asyncio.current_task()
        assert task is not None
        yield TextChunk("a")
        task.cancel()
        await asyncio.sleep(1)

    played = Played()
    with pytest.raises(Draining):
        async for _ in interleaved([ChoiceStream(played.stream("b…")), ChoiceStream(cancelled())]):
            pass
    assert played.closed == ["b…"]
