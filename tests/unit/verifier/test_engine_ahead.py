"""Passes ahead of their step change neither tokens nor K/V, whatever the next step is."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dspark.sampling import SamplingParams
from dspark.step import StepOutcome
from dspark.token_tree import chain
from dspark.verifier.engine import Engine
from dspark.verifier.forward_batch import ForwardBatch
from harness.fake_model import FakeModel
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import (
    CheckedRunner,
    Client,
    Driver,
    FakeClock,
    fake_engine,
    no_tree,
    plain_decode,
)

MODEL = FakeModel()
EOS = frozenset({3})


class BrokenDevice(Exception):
    """A forward pass failed."""


class OneBuffer:
    """Returns all logits in one array, as kernels do; fails after ``num_good_passes``, if set."""

    def __init__(self, runner: CheckedRunner) -> None:
        self._forward = runner.forward
        self._logits = np.empty((64, MODEL.vocab_size), dtype=np.float32)
        self.num_good_passes: int | None = None
        self.num_rows: list[int] = []

    def __call__(self, batch: ForwardBatch) -> NDArray[np.float32]:
        if self.num_good_passes is not None:
            if not self.num_good_passes:
                raise BrokenDevice
            self.num_good_passes -= 1
        logits = self._forward(batch)
        self.num_rows.append(batch.num_rows)
        self._logits[:] = np.nan
        self._logits[: len(logits)] = logits
        return self._logits[: len(logits)]


class AheadDriver(Driver):
    """After each step the engine computes ahead, if the step says so."""

    def __init__(self, engine: Engine, runner: CheckedRunner) -> None:
        super().__init__(engine)
        self.kv = runner.kv
        self.passes = OneBuffer(runner)
        runner.forward = self.passes  # type: ignore[method-assign]

    def step(self, *, ahead: bool = True, **plan: object) -> StepOutcome:
        outcome = super().step(compute_ahead=ahead, **plan)
        self.engine.compute_ahead()
        self.engine.check()
        self.check_kv()
        return outcome

    def check_kv(self) -> None:
        """Each live sequence has the K/V of a plain prefill of its tokens."""
        for sequence in self.engine.sequences:
            slots = sequence.table.slots[: sequence.num_computed]
            wanted = MODEL.digests_of(sequence.tokens.ids[: sequence.num_computed].tolist())
            assert (self.kv.digests[slots] == wanted).all()


def ahead_driver(**settings: object) -> AheadDriver:
    values: dict[str, object] = {"is_row_invariant": True, "eos_token_ids": EOS, **settings}
    return AheadDriver(*fake_engine(model=MODEL, **values))  # type: ignore[arg-type]


def prompt_of(seed: int, size: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(MODEL.vocab_size) for _ in range(size)]


def sampling_of(seed: int, max_tokens: int, temperature: float = 0.0) -> SamplingParams:
    return SamplingParams(
        temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=seed % 2 == 0
    )


def client(name: str, prompt: list[int], sampling: SamplingParams, drafter: str) -> Client:
    wanted = plain_decode(MODEL, prompt, sampling, eos_token_ids=EOS)[0]
    return Client(
        name, prompt, sampling, KnownText(prompt + wanted, MODEL.vocab_size).all()[drafter]
    )


def assert_right(request: Client) -> None:
    wanted = plain_decode(MODEL, request.prompt, request.sampling, eos_token_ids=EOS)
    assert (request.committed, request.finish_reason) == wanted


def plain(name: str, seed: int = 0, max_tokens: int = 12) -> Client:
    return Client(name, prompt_of(seed, 5), sampling_of(2 * seed, max_tokens), no_tree)


def test_plain_steps_need_no_pass_of_their_own() -> None:
    driver = ahead_driver()
    first, second = plain("a", 1), plain("b", 2)
    driver.admit(first, second)
    driver.work(first, second)
    while first.finish_reason is None:
        num_passes = len(driver.passes.num_rows)
        outcome = driver.work(first, second)
        assert outcome.num_ahead_rows == outcome.num_rows == 2
        assert 0 <= outcome.ahead_ns <= outcome.forward_ns
        assert len(driver.passes.num_rows) <= num_passes + 1
    assert_right(first)
    assert_right(second)
    # What has ended for certain is not gone on with.
    assert len(driver.passes.num_rows) == 12
    assert driver.engine.pool.num_in_use == 0


def test_nothing_is_computed_unless_the_step_says_so() -> None:
    driver = ahead_driver()
    request = plain("a")
    driver.admit(request)
    for _ in range(2):
        outcome = driver.step(work=(request.work(),), ahead=False)
        request.apply(outcome.results[0])
    assert len(driver.passes.num_rows) == 2
    Driver.step(driver, work=(request.work(),), compute_ahead=True)
    driver.step(ahead=False)
    assert len(driver.passes.num_rows) == 3


def test_what_comes_in_between_is_computed_beside_it() -> None:
    driver = ahead_driver()
    first, second = plain("a", 1), plain("b", 2)
    driver.admit(first)
    driver.work(first)
    driver.admit(second)
    # The admission was a step without work: what was ahead is gone.
    outcome = driver.work(second, first)
    assert (outcome.num_rows, outcome.num_ahead_rows) == (6, 0)
    third = plain("c", 3)
    outcome = driver.step(
        admissions=(third.admission(),), work=(third.work(), second.work(), first.work())
    )
    for request, result in zip((third, second, first), outcome.results, strict=True):
        request.apply(result)
    assert (outcome.num_rows, outcome.num_ahead_rows) == (7, 2)
    driver.finish(first, second, third)
    for request in (first, second, third):
        assert_right(request)


def test_a_tree_makes_its_sequence_compute_anew() -> None:
    driver = ahead_driver()
    first, second = plain("a", 1), plain("b", 2)
    driver.admit(first, second)
    driver.work(first, second)
    second.drafter = lambda tokens: chain([1, 2], "x")
    outcome = driver.work(first, second)
    assert (outcome.num_rows, outcome.num_ahead_rows) == (4, 1)
    second.drafter = no_tree
    driver.finish(first, second)
    assert_right(first)
    assert_right(second)


def test_without_row_invariance_it_is_all_or_nothing() -> None:
    driver = ahead_driver(is_row_invariant=False)
    first, second = plain("a", 1), plain("b", 2)
    driver.admit(first, second)
    driver.work(first, second)
    assert driver.work(first, second).num_ahead_rows == 2
    assert driver.work(second, first).num_ahead_rows == 0
    assert driver.work(second).num_ahead_rows == 0
    driver.finish(first, second)
    assert_right(first)


def test_without_a_free_block_nothing_is_computed_ahead() -> None:
    driver = ahead_driver(num_blocks=2, block_size=4, num_evictable_blocks=0)
    request = Client("a", prompt_of(1, 7), sampling_of(2, 1000), no_tree)
    driver.admit(request)
    # The eighth token fills the pool; the ninth has no slot.
    driver.work(request)
    driver.work(request)
    assert len(request.committed) == 2 and len(driver.passes.num_rows) == 2
    assert driver.engine.pool.num_available == 0
    driver.step(releases=(request.ref(),))
    assert driver.engine.pool.num_in_use == 0


def test_a_failed_pass_ahead_hurts_nobody() -> None:
    driver = ahead_driver()
    request = plain("a", 1)
    driver.admit(request)
    driver.passes.num_good_passes = 1
    with pytest.raises(BrokenDevice):
        driver.work(request)
    driver.engine.check()
    driver.passes.num_good_passes = None
    # The step itself was done, and is known by its reply in a real verifier.
    (held,) = driver.engine.sequences
    request.committed = held.tokens.ids[len(request.prompt) :].tolist()
    assert driver.work(request).num_ahead_rows == 0
    driver.finish(request)
    assert_right(request)


def test_a_failed_step_may_be_repeated_although_it_used_a_pass_ahead() -> None:
    driver = ahead_driver()
    first, second = plain("a", 1), plain("b", 2)
    driver.admit(first, second)
    driver.work(first)
    driver.passes.num_good_passes = 0
    with pytest.raises(BrokenDevice):
        driver.work(first, second)
    driver.engine.check()
    driver.passes.num_good_passes = None
    driver.finish(first, second)
    assert_right(first)
    assert_right(second)


def test_a_reclaimed_sequence_is_forgotten_by_what_is_ahead() -> None:
    clock = FakeClock()
    driver = ahead_driver(clock=clock, lease_s=10.0)
    request = plain("a", 1)
    driver.admit(request)
    Driver.step(driver, work=(request.work(),), compute_ahead=True)
    clock.now += 11
    driver.engine.reclaim()
    driver.engine.compute_ahead()
    driver.engine.check()
    assert driver.engine.pool.num_in_use == 0 and len(driver.passes.num_rows) == 1


@st.composite
def scenarios(draw: st.DrawFn) -> list[Client]:
    """Requests with shared prefixes, any drafter, any chunk size, of various lengths."""
    return [
        replace(
            client(
                f"r{index}",
                prompt_of(draw(st.integers(0, 1)), draw(st.integers(1, 14))),
                sampling_of(
                    draw(st.integers(0, 3)),
                    draw(st.integers(1, 20)),
                    draw(st.sampled_from([0.0, 1.0])),
                ),
                draw(st.sampled_from(NAMES)),
            ),
            max_pending_rows=draw(st.sampled_from([1, 3, 100])),
            use_prefix_cache=draw(st.booleans()),
        )
        for index in range(draw(st.integers(1, 4)))
    ]


@given(scenarios(), st.randoms(use_true_random=False), st.booleans())
def test_ahead_or_not_is_the_same(
    requests: list[Client], chance: random.Random, is_row_invariant: bool
) -> None:
    """Admissions, preemptions, trees, plain steps, part batches, failures: in any order."""
    driver = ahead_driver(is_row_invariant=is_row_invariant, num_blocks=96)
    waiting, running = list(requests), []
    drafters = {request.request_id: request.drafter for request in requests}
    while waiting or running:
        if waiting and (not running or chance.random() < 0.3):
            running.append(waiting.pop())
            driver.admit(running[-1])
        if chance.random() < 0.1:
            victim = chance.choice(running)
            victim.epoch += 1
            driver.step(admissions=(victim.admission(),), ahead=chance.random() < 0.5)
        chosen = [request for request in running if chance.random() < 0.9]
        chance.shuffle(chosen)
        for request in chosen:
            is_plain = chance.random() < 0.7
            request.drafter = no_tree if is_plain else drafters[request.request_id]
        outcome = driver.step(work=tuple(c.work() for c in chosen), ahead=chance.random() < 0.8)
        for request, result in zip(chosen, outcome.results, strict=True):
            request.apply(result)
        running = [request for request in running if request.finish_reason is None]
    for request in requests:
        assert_right(request)
    assert len(driver.engine.sequences) == 0 and driver.engine.pool.num_in_use == 0
