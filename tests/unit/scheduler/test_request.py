"""A request's states and counters."""

from __future__ import annotations

import pytest

from dspark.generation import RequestSpec
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.request import Request, RequestStatus, is_natural


def make(prompt: tuple[int, ...] = (1, 2, 3), **spec: object) -> Request:
    sampling = SamplingParams(max_tokens=4)
    return Request(RequestSpec("r", prompt, sampling, **spec), arrival=0)  # type: ignore[arg-type]


def test_a_request_passes_through_its_states() -> None:
    request = make()
    assert request.status is RequestStatus.WAITING
    request.admit(epoch=5)
    request.num_computed_tokens = 3
    request.commit((7,))
    assert request.is_running and request.num_pending_tokens == 1
    request.preempt()
    assert request.status is RequestStatus.PREEMPTED and request.num_computed_tokens == 0
    assert request.token_ids == [1, 2, 3, 7]
    request.admit(epoch=6)
    assert request.ref.epoch == 6
    request.finish()
    assert request.is_finished


@pytest.mark.parametrize("move", ["preempt", "commit"])
def test_moves_of_a_running_request_need_one(move: str) -> None:
    request = make()
    with pytest.raises(AssertionError):
        request.commit((1,)) if move == "commit" else request.preempt()


def test_an_incarnation_needs_a_larger_epoch() -> None:
    request = make()
    request.admit(epoch=5)
    request.preempt()
    with pytest.raises(AssertionError):
        request.admit(epoch=5)


def test_a_request_finishes_once() -> None:
    request = make()
    request.finish()
    with pytest.raises(AssertionError):
        request.finish()


def test_committed_tokens_of_an_earlier_scheduler_count_as_generated() -> None:
    request = make(committed_token_ids=(8, 9))
    assert request.token_ids == [1, 2, 3, 8, 9]
    assert (request.num_prompt_tokens, request.num_generated_tokens) == (3, 2)
    assert request.num_remaining_tokens == 2
    assert request.usage().completion_tokens == 2


@pytest.mark.parametrize(
    ("reason", "natural"),
    [
        (FinishReason.STOP, True),
        (FinishReason.LENGTH, True),
        (FinishReason.ABORT, False),
        (FinishReason.ERROR, False),
    ],
)
def test_only_natural_ends_are_worth_learning_from(reason: FinishReason, natural: bool) -> None:
    assert is_natural(reason) is natural


def test_it_is_at_an_epoch_and_a_length_only_while_it_runs() -> None:
    request = make((1,))
    assert not request.is_at(1, 1)
    request.admit(epoch=1)
    assert request.is_at(1, 1)
    assert not request.is_at(1, 2)
    request.preempt()
    assert not request.is_at(1, 1)
    request.admit(epoch=2)
    assert not request.is_at(1, 1)
