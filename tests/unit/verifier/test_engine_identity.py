"""Speculation, batching, chunking, prefix hits and preemption never change the tokens."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.sampling import FinishReason, SamplingParams
from harness.fake_model import FakeModel
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import Client, Driver, fake_engine, plain_decode

MODEL = FakeModel()
EOS = frozenset({3})


def expected(prompt: list[int], sampling: SamplingParams) -> tuple[list[int], FinishReason]:
    return plain_decode(MODEL, prompt, sampling, eos_token_ids=EOS)


def client(name: str, prompt: list[int], sampling: SamplingParams, drafter: str, **kw) -> Client:
    text = KnownText(prompt + expected(prompt, sampling)[0], MODEL.vocab_size)
    return Client(name, prompt, sampling, text.all()[drafter], **kw)


def prompt_of(seed: int, size: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(MODEL.vocab_size) for _ in range(size)]


def assert_right(request: Client) -> None:
    assert (request.committed, request.finish_reason) == expected(request.prompt, request.sampling)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.3])
@pytest.mark.parametrize("drafter", NAMES)
def test_every_drafter_gives_the_tokens_of_plain_decoding(drafter: str, temperature: float) -> None:
    driver = Driver(fake_engine()[0])
    sampling = SamplingParams(temperature=temperature, seed=7, max_tokens=40, ignore_eos=True)
    request = client("a", prompt_of(1, 9), sampling, drafter)
    driver.run(request)
    assert_right(request)


def test_a_perfect_drafter_is_accepted_whole() -> None:
    driver = Driver(fake_engine()[0])
    sampling = SamplingParams(temperature=1.0, seed=3, max_tokens=40, ignore_eos=True)
    for name in ("oracle", "branchy"):
        request = client(name, prompt_of(2, 6), sampling, name)
        driver.run(request)
        # Four nodes and a bonus token a pass: 40 tokens take 8 passes, 32 of them accepted.
        assert request.num_accepted == 32
        assert_right(request)


@st.composite
def scenarios(draw: st.DrawFn) -> list[Client]:
    """Requests with shared prefixes, any sampling, any drafter and any chunk size."""
    requests = []
    for index in range(draw(st.integers(1, 5))):
        shared = prompt_of(draw(st.integers(0, 1)), draw(st.integers(1, 24)))
        own = prompt_of(100 + draw(st.integers(0, 3)), draw(st.integers(0, 6)))
        sampling = SamplingParams(
            temperature=draw(st.sampled_from([0.0, 0.7, 1.3])),
            top_k=draw(st.sampled_from([0, 3])),
            top_p=draw(st.sampled_from([1.0, 0.8])),
            min_p=draw(st.sampled_from([0.0, 0.1])),
            seed=draw(st.integers(0, 3)),
            max_tokens=draw(st.integers(1, 24)),
            ignore_eos=draw(st.booleans()),
        )
        requests.append(
            client(
                f"r{index}",
                shared + own,
                sampling,
                draw(st.sampled_from(NAMES)),
                max_pending_rows=draw(st.sampled_from([1, 3, 7, 100])),
                use_prefix_cache=draw(st.booleans()),
            )
        )
    return requests


@given(scenarios(), st.randoms(use_true_random=False))
def test_batches_chunks_prefix_hits_and_preemption_change_nothing(
    requests: list[Client], chance: random.Random
) -> None:
    engine, _ = fake_engine(num_blocks=96, eos_token_ids=EOS)
    driver = Driver(engine)
    waiting, running = list(requests), []
    while waiting or running:
        if waiting and (not running or chance.random() < 0.4):
            running.append(waiting.pop())
            driver.admit(running[-1])
        if chance.random() < 0.15:
            victim = chance.choice(running)
            driver.step(releases=(victim.ref(),))
            victim.epoch += 1
            driver.admit(victim)
        chosen = [request for request in running if chance.random() < 0.8]
        driver.work(*chosen)
        running = [request for request in running if request.finish_reason is None]
    for request in requests:
        assert_right(request)
    assert len(engine.sequences) == 0 and engine.pool.num_in_use == 0
