"""A verifier without a model."""

from __future__ import annotations

from typing import Any

import pytest

from dspark.cli.simulate.processor import Processor, SchedulerModel
from dspark.cli.simulate.simulated_verifier import SimulatedVerifier
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.cli.simulate.virtual_time import run_virtual
from dspark.clock import monotonic
from dspark.sampling import FinishReason, SamplingParams
from dspark.step import (
    SequenceAdmission,
    SequenceRef,
    SequenceWork,
    StepOutcome,
    StepPlan,
    VerifyCost,
    WorkStatus,
)
from dspark.token_tree import TokenTree, chain

COSTS = (VerifyCost(1, 10.0), VerifyCost(101, 110.0))
PROMPT = tuple(range(20))


def admission(request_id: str = "r", max_tokens: int = 8, tokens: Any = PROMPT) -> Any:
    params = SamplingParams(max_tokens=max_tokens)
    return SequenceAdmission(request_id, 1, tokens, len(tokens), params)


def work(base_len: int, rows: int = 1, tree: TokenTree | None = None, name: str = "r") -> Any:
    return SequenceWork(name, 1, base_len, rows, tree or TokenTree())


def steps(*plans: StepPlan, **model: Any) -> list[tuple[StepOutcome, float]]:
    """Each outcome, with the milliseconds that it took."""
    sizes: dict[str, Any] = {"num_blocks": 100, "block_size": 4, "verify_costs": COSTS}

    async def main() -> list[tuple[StepOutcome, float]]:
        processor = Processor(SchedulerModel(step_ms=1.0, step_ms_per_request=0.5))
        verifier = SimulatedVerifier(VerifierModel(**sizes | model), processor, 0)
        found = []
        for plan in plans:
            began = monotonic()
            outcome = await verifier.step(plan)
            found.append((outcome, (monotonic() - began) * 1e3))
        return found

    return run_virtual(main())


def plan(
    *entries: SequenceWork, admissions: Any = (), releases: Any = (), ahead: bool = False
) -> Any:
    return StepPlan("s", 1, releases, tuple(admissions), entries, compute_ahead=ahead)


def test_a_step_takes_its_pass_its_call_and_the_schedulers_part() -> None:
    [(outcome, ms)] = steps(
        plan(work(20, 20), admissions=[admission()]), call_ms=2.0, call_ms_per_request=0.25
    )
    # 29 ms for 20 rows
    assert ms == pytest.approx(1.5 + 2.25 + 29.0)
    assert outcome.forward_ns == pytest.approx(29e6)
    assert outcome.num_rows == 20


def test_a_prompt_in_chunks_commits_with_its_last_row() -> None:
    found = steps(plan(work(20, 15), admissions=[admission()]), plan(work(20, 15)))
    first, second = (outcome.results[0] for outcome, _ in found)
    assert (first.num_computed_tokens, first.committed_token_ids) == (15, ())
    assert (second.num_computed_tokens, second.committed_token_ids) == (20, (1,))


def test_right_nodes_are_accepted_up_to_the_first_wrong_one() -> None:
    tree = chain([1, 1, 5, 1], "a")
    found = steps(plan(work(20, 20), admissions=[admission()]), plan(work(21, 1, tree)))
    result = found[1][0].results[0]
    assert result.accepted_nodes == (1, 2)
    assert result.committed_token_ids == (1, 1, 1)
    assert result.num_computed_tokens == 23
    assert found[1][0].num_rows == 5


def test_a_sequence_ends_with_its_tokens_and_frees_its_blocks() -> None:
    tree = chain([1] * 9, "a")
    found = steps(plan(work(20, 20), admissions=[admission(max_tokens=4)]), plan(work(21, 1, tree)))
    result = found[1][0].results[0]
    assert result.committed_token_ids == (1, 1, 1)
    assert result.finish_reason is FinishReason.LENGTH
    assert found[1][0].num_free_blocks == 100


def test_what_it_does_not_know_or_has_no_room_for_is_not_computed() -> None:
    found = steps(
        plan(work(20, 20), admissions=[admission()]),
        plan(work(20), work(9, name="x")),
        plan(work(21, 1, chain([1] * 9, "a"))),
        num_blocks=6,
    )
    assert [r.status for r in found[1][0].results] == [WorkStatus.STALE, WorkStatus.NOT_FOUND]
    # Without room for its tree a sequence goes on plainly.
    assert found[2][0].results[0].committed_token_ids == (1,)
    [(outcome, _)] = steps(plan(work(20, 20), admissions=[admission()]), num_blocks=4)
    assert outcome.results[0].status is WorkStatus.NO_BLOCKS


def test_released_sequences_are_gone() -> None:
    found = steps(
        plan(work(20, 20), admissions=[admission()]),
        plan(work(21), releases=(SequenceRef("r", 1),)),
    )
    assert found[1][0].results[0].status is WorkStatus.NOT_FOUND
    assert found[1][0].num_free_blocks == 100


def test_a_prompt_that_was_computed_before_is_cached_but_for_its_last_token() -> None:
    found = steps(
        plan(work(20, 20, name="a"), admissions=[admission("a")]),
        plan(work(20, 20, name="b"), admissions=[admission("b")]),
        plan(work(20, 20, name="c"), admissions=[admission("c", tokens=(9, *PROMPT[1:]))]),
    )
    assert [outcome.cached_tokens for outcome, _ in found] == [{"a": 0}, {"b": 16}, {"c": 0}]
    assert [outcome.num_rows for outcome, _ in found] == [20, 4, 20]


def test_a_pass_ahead_runs_while_the_reply_travels() -> None:
    first = plan(work(20, 20), admissions=[admission()], ahead=True)
    found = steps(first, plan(work(21)), call_ms=4.0, computes_ahead=True)
    outcome, ms = found[1]
    # 5.5 of its 10 ms are over when the step comes.
    assert ms == pytest.approx(10.0)
    assert (outcome.num_ahead_rows, outcome.ahead_ns) == (1, pytest.approx(5.5e6))
    assert outcome.forward_ns == pytest.approx(10e6)


def test_a_pass_ahead_that_is_of_no_use_is_waited_for() -> None:
    first = plan(work(20, 20), admissions=[admission()], ahead=True)
    found = steps(first, plan(work(21, 1, chain([1], "a"))), call_ms=4.0, computes_ahead=True)
    outcome, ms = found[1]
    assert ms == pytest.approx(10.0 + 11.0)
    assert outcome.num_ahead_rows == 0


def test_jitter_spreads_passes_and_keeps_their_mean() -> None:
    tokens = range(21, 221)
    plans = [plan(work(20, 20), admissions=[admission(max_tokens=300)])]
    plans += [StepPlan("s", n, (), (), (work(n),)) for n in tokens]
    taken = [outcome.forward_ns / 1e6 for outcome, _ in steps(*plans, jitter=0.1)][1:]
    mean = sum(taken) / len(taken)
    spread = (sum((ms - mean) ** 2 for ms in taken) / len(taken)) ** 0.5
    assert mean == pytest.approx(10.0, rel=0.03)
    assert spread == pytest.approx(1.0, rel=0.25)
