"""Completions in the shape of vLLM's RequestOutput."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dspark.client import Completion, FinishReason, TokenLogprobs, TopLogprob
from dspark.llm import CompletionOutput, Logprob, RequestOutput
from dspark.llm.outputs import request_output
from dspark.llm.progress_bar import progress_bar
from dspark.sampling import SpeculationStats, StepBreakdown, Usage

TOLD = (
    TokenLogprobs(5, -1.5, 3, b"a", (TopLogprob(7, -0.5, b"b"), TopLogprob(8, -1.0, b"\xe2"))),
    TokenLogprobs(7, -0.25, 1, b"b", (TopLogprob(7, -0.25, b"b"), TopLogprob(8, -2.0, b"\xe2"))),
)


def completion(**fields: Any) -> Completion:
    given: dict[str, Any] = {
        "request_id": "r",
        "model": "m",
        "seed": 7,
        "text": "ab",
        "token_ids": (5, 7),
        "finish_reason": FinishReason.LENGTH,
        "stop_reason": None,
        "usage": Usage(3, 2, 1),
        "speculation": SpeculationStats(rounds=1, drafted=2, accepted=1),
        "steps": StepBreakdown(),
        "ttft_ms": 1.0,
        "itl_ms": (),
        "elapsed_ms": 2.0,
    }
    return Completion(**(given | fields))


def converted(*completions: Completion, told: bool = False) -> RequestOutput:
    return request_output(
        "xyz", [1, 2, 3], completions, has_logprobs=told, has_prompt_logprobs=told
    )


def test_a_prompt_and_its_outputs() -> None:
    other = completion(seed=8, finish_reason=FinishReason.STOP, stop_reason="!", request_id="r-1")
    result = converted(completion(), other)
    assert (result.request_id, result.prompt, result.prompt_token_ids) == ("r", "xyz", (1, 2, 3))
    assert (result.finished, result.num_cached_tokens, result.prompt_logprobs) == (True, 1, None)
    first, second = result.outputs
    assert first == CompletionOutput(
        index=0,
        text="ab",
        token_ids=(5, 7),
        cumulative_logprob=None,
        logprobs=None,
        finish_reason="length",
        stop_reason=None,
        seed=7,
        speculation=SpeculationStats(rounds=1, drafted=2, accepted=1),
    )
    assert (second.index, second.seed) == (1, 8)
    assert (second.finish_reason, second.stop_reason) == ("stop", "!")


def test_logprobs_are_objects_by_token_id_with_the_token_first() -> None:
    result = converted(completion(logprobs=TOLD, prompt_logprobs=TOLD[:1]), told=True)
    (first,) = result.outputs
    assert first.cumulative_logprob == -1.75
    assert first.logprobs == (
        {5: Logprob(-1.5, 3, "a"), 7: Logprob(-0.5, 1, "b"), 8: Logprob(-1.0, 2, "\ufffd")},
        {7: Logprob(-0.25, 1, "b"), 8: Logprob(-2.0, 2, "\ufffd")},
    )
    assert next(iter(first.logprobs[0])) == 5
    assert result.prompt_logprobs == (None, first.logprobs[0])


@pytest.mark.parametrize(("is_terminal", "is_wanted"), [(True, True), (True, False), (False, True)])
def test_the_bar_shows_on_a_terminal_where_it_is_wanted(is_terminal: bool, is_wanted: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=100)
    with progress_bar(2, is_wanted, console) as advance:
        advance(converted(completion()))
        advance(converted(completion()))
    assert ("2/2" in file.getvalue()) == (is_terminal and is_wanted)
    assert ("tokens/s" in file.getvalue()) == (is_terminal and is_wanted)
