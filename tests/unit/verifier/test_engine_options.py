"""Options that change logits or tell of them: exact along accepted paths, across preemption too."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from dspark.sampling import FinishReason, SamplingParams
from harness.fake_model import FakeModel
from harness.plain_options import PlainRun, decode_plainly, drawn_log_probabilities, log_softmax
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import Client, Driver, fake_engine

MODEL = FakeModel()
EOS = frozenset({3})
PROMPT = [5, 1, 4, 1, 5, 9, 2, 6, 5]
OPTIONS: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 1.6},
    "presence": {"presence_penalty": 2.0},
    "frequency": {"frequency_penalty": -1.0},
    "bias": {"logit_bias": ((7, 3.0), (2, -100.0))},
    "bad words": {"bad_words": ((8,), (5, 4), (9, 9, 1), (1, 2, 3, 4))},
    "allowed": {"allowed_token_ids": frozenset({1, 2, 5, 7, 11})},
    "min tokens": {"min_tokens": 20, "ignore_eos": False},
    "all": {
        "repetition_penalty": 0.8,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.7,
        "logit_bias": ((3, 2.0),),
        "bad_words": ((8,), (5, 4)),
        "allowed_token_ids": frozenset(range(13)),
        "min_tokens": 11,
        "ignore_eos": False,
        "top_p": 0.9,
        "top_k": 8,
        "min_p": 0.02,
    },
}
DRAFTERS = ("oracle", "alternating", "random", "branchy", "adversary")


def params_of(option: str, temperature: float, **more: Any) -> SamplingParams:
    fields = {"ignore_eos": True, **OPTIONS[option], **more}
    return SamplingParams(temperature=temperature, seed=11, max_tokens=32, **fields)


def plain(params: SamplingParams) -> PlainRun:
    return decode_plainly(MODEL.next_logits, PROMPT, params, EOS)


def client(params: SamplingParams, drafter: str, **more: Any) -> Client:
    text = KnownText(PROMPT + plain(params).token_ids, MODEL.vocab_size)
    return Client("a", PROMPT, params, text.all()[drafter], **more)


def assert_right(request: Client) -> None:
    wanted = plain(request.sampling)
    assert request.committed == wanted.token_ids
    assert request.finish_reason == wanted.finish_reason


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_drafter_gives_the_tokens_of_plain_decoding(
    option: str, drafter: str, temperature: float
) -> None:
    params = params_of(option, temperature)
    request = client(params, drafter, max_pending_rows=4)
    Driver(fake_engine(eos_token_ids=EOS)[0]).run(request)
    assert_right(request)
    if drafter == "oracle":
        assert request.num_accepted > len(request.committed) // 2


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_changes_the_tokens(option: str, temperature: float) -> None:
    """So that the tests here are about something."""
    neutral = SamplingParams(
        temperature=temperature,
        seed=11,
        max_tokens=32,
        ignore_eos=OPTIONS[option].get("ignore_eos", True),
    )
    assert plain(params_of(option, temperature)).token_ids != plain(neutral).token_ids


@pytest.mark.parametrize("ignore_eos", [False, True])
@pytest.mark.parametrize("drafter", ["oracle", "branchy", "adversary"])
@pytest.mark.parametrize("offset", range(6))
def test_an_end_inside_a_run_counts_from_the_fewest_tokens_on(
    offset: int, drafter: str, ignore_eos: bool
) -> None:
    """A token that plain decoding really gives is an end, or may be none yet."""
    free = SamplingParams(temperature=0.0, max_tokens=16, ignore_eos=True)
    end = frozenset({plain(free).token_ids[offset]})
    for name in ("eos", "stop token"):
        eos, stops = (end, frozenset()) if name == "eos" else (frozenset(), end)
        for min_tokens in {0, 1, offset, offset + 1, offset + 2, 9, 16}:
            params = replace(
                free, ignore_eos=ignore_eos, stop_token_ids=stops, min_tokens=min_tokens
            )
            wanted = decode_plainly(MODEL.next_logits, PROMPT, params, eos)
            known = KnownText(PROMPT + wanted.token_ids, MODEL.vocab_size)
            request = Client("a", PROMPT, params, getattr(known, drafter))
            engine, _ = fake_engine(eos_token_ids=eos)
            Driver(engine).run(request)
            assert request.committed == wanted.token_ids
            assert request.finish_reason is wanted.finish_reason
            ends = end if name == "stop token" or not ignore_eos else frozenset()
            assert not ends & set(request.committed[:min_tokens])
            assert engine.pool.num_in_use == 0


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("use_prefix_cache", [True, False])
def test_preemption_does_not_turn_output_into_prompt(
    option: str, temperature: float, use_prefix_cache: bool
) -> None:
    request = client(
        params_of(option, temperature, logprobs=2),
        "random",
        use_prefix_cache=use_prefix_cache,
        max_pending_rows=12,
    )
    driver = Driver(fake_engine(eos_token_ids=EOS)[0])
    driver.admit(request)
    for step in range(200):
        if request.finish_reason is not None:
            break
        if step % 6 == 5:
            driver.step(releases=(request.ref(),))
            request.epoch += 1
            driver.admit(request)
        driver.work(request)
    assert_right(request)
    assert len(request.logprobs) == len(request.committed)


@pytest.mark.parametrize("mode", ["raw", "processed"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("option", ["all", "bias"])
def test_logprobs_are_those_of_plain_decoding(
    option: str, drafter: str, temperature: float, mode: str
) -> None:
    params = params_of(option, temperature, logprobs=4)
    request = client(params, drafter)
    Driver(fake_engine(eos_token_ids=EOS, logprobs_mode=mode)[0]).run(request)
    assert_right(request)
    run = plain(params)
    assert len(request.logprobs) == len(run.token_ids)
    for place, told in enumerate(request.logprobs):
        wanted = log_softmax(run.raw[place])
        if mode == "processed":
            wanted = drawn_log_probabilities(run.changed[place], params)
        assert told.logprob == pytest.approx(wanted[run.token_ids[place]], abs=1e-5)
        assert math.isfinite(told.logprob)
        best = sorted(wanted, reverse=True)[:4]
        assert told.top_logprobs == pytest.approx(best, abs=1e-5)
        assert told.rank == 1 + sum(x > wanted[run.token_ids[place]] + 1e-9 for x in wanted)


def test_neighbours_that_ask_for_nothing_are_told_nothing() -> None:
    one = client(params_of("all", 0.8, logprobs=1), "oracle")
    other = Client("b", PROMPT, SamplingParams(temperature=0.0, max_tokens=9, ignore_eos=True))
    Driver(fake_engine(eos_token_ids=EOS)[0]).run(one, other)
    assert_right(one)
    assert len(one.logprobs) == len(one.committed)
    assert other.logprobs == other.prompt_logprobs == []


def assert_tells_prompt(request: Client) -> None:
    assert len(request.prompt_logprobs) == len(request.prompt) - 1
    for place, told in enumerate(request.prompt_logprobs, start=1):
        wanted = log_softmax(MODEL.next_logits(request.prompt[:place]))
        assert told.logprob == pytest.approx(wanted[request.prompt[place]], abs=1e-5)
        assert told.top_logprobs == pytest.approx(sorted(wanted, reverse=True)[:3], abs=1e-5)


@pytest.mark.parametrize("max_rows", [1, 3, 100])
@pytest.mark.parametrize("max_prompt_logits", [1, 4, 64])
def test_the_prompt_is_told_of_whatever_its_chunks(max_rows: int, max_prompt_logits: int) -> None:
    params = params_of("all", 0.8, prompt_logprobs=3)
    request = client(params, "oracle", max_pending_rows=max_rows)
    engine, _ = fake_engine(eos_token_ids=EOS, max_prompt_logits=max_prompt_logits)
    Driver(engine).run(request)
    assert_right(request)
    assert_tells_prompt(request)


def test_a_cached_prompt_is_computed_anew_to_tell_of_it() -> None:
    driver = Driver(fake_engine(eos_token_ids=EOS)[0])
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    driver.run(Client("first", PROMPT, params))
    telling = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True, prompt_logprobs=3)
    request = Client("second", PROMPT, telling)
    driver.run(request)
    assert request.cached_tokens == 0
    assert_tells_prompt(request)
    third = Client("third", PROMPT, params)
    driver.run(third)
    assert third.cached_tokens > 0
    assert third.committed == request.committed


def test_a_prompt_is_told_of_once_across_preemptions() -> None:
    driver = Driver(fake_engine(eos_token_ids=EOS)[0])
    request = client(params_of("all", 0.8, prompt_logprobs=3), "random", max_pending_rows=4)
    driver.admit(request)
    driver.work(request)
    assert not request.committed
    for _ in range(2):
        driver.step(releases=(request.ref(),))
        request.epoch += 1
        driver.admit(request)
        for _ in range(3):
            driver.work(request)
        assert request.committed
    driver.finish(request)
    assert_right(request)
    assert_tells_prompt(request)


def test_a_prompt_of_one_token_has_nothing_to_tell() -> None:
    request = Client("a", [4], SamplingParams(temperature=0.0, max_tokens=3, prompt_logprobs=2))
    Driver(fake_engine()[0]).run(request)
    assert request.prompt_logprobs == []


def test_a_request_that_may_draw_nothing_ends_with_an_error() -> None:
    params = SamplingParams(
        temperature=0.0, max_tokens=9, allowed_token_ids=frozenset({4}), bad_words=((4, 4),)
    )
    request = Client("a", PROMPT, params)
    engine, _ = fake_engine()
    Driver(engine).run(request)
    assert (request.committed, request.finish_reason) == ([4], FinishReason.ERROR)
    assert engine.pool.num_in_use == 0


ALLOWED = [frozenset(), frozenset(range(1, 12)), frozenset(range(0, MODEL.vocab_size, 2))]


def any_options(chance: random.Random) -> SamplingParams:
    max_tokens = chance.randint(1, 24)
    tokens = range(MODEL.vocab_size)
    biased = chance.sample(tokens, chance.randint(0, 4))
    return SamplingParams(
        temperature=chance.choice([0.0, 0.8]),
        seed=chance.randint(0, 3),
        top_k=chance.choice([0, 3]),
        top_p=chance.choice([1.0, 0.8]),
        max_tokens=max_tokens,
        ignore_eos=chance.random() < 0.5,
        repetition_penalty=chance.choice([1.0, 1.5, 0.8]),
        presence_penalty=chance.choice([0.0, 1.0, -1.0]),
        frequency_penalty=chance.choice([0.0, 0.5]),
        logit_bias=tuple((token, chance.uniform(-9, 9)) for token in biased),
        bad_words=tuple(tuple(chance.choices(tokens, k=2)) for _ in range(chance.randint(0, 3))),
        allowed_token_ids=chance.choice(ALLOWED),
        min_tokens=chance.randint(0, max_tokens),
        logprobs=chance.choice([None, 0, 3]),
        prompt_logprobs=chance.choice([None, 0, 3]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_batches_chunks_prefix_hits_and_preemption_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    options = [any_options(chance) for _ in range(chance.randint(1, 4))]
    engine, _ = fake_engine(num_blocks=96, eos_token_ids=EOS)
    driver = Driver(engine)
    waiting = [
        replace(
            client(params, chance.choice(NAMES)),
            request_id=f"r{index}",
            max_pending_rows=chance.choice([1, 3, 100]),
            use_prefix_cache=chance.random() < 0.7,
            committed=[],
            logprobs=[],
            prompt_logprobs=[],
        )
        for index, params in enumerate(options)
    ]
    requests, running = list(waiting), []
    while waiting or running:
        if waiting and (not running or chance.random() < 0.4):
            running.append(waiting.pop())
            driver.admit(running[-1])
        if chance.random() < 0.1:
            victim = chance.choice(running)
            driver.step(releases=(victim.ref(),))
            victim.epoch += 1
            driver.admit(victim)
        driver.work(*[request for request in running if chance.random() < 0.8])
        running = [request for request in running if request.finish_reason is None]
    for request in requests:
        assert_right(request)
        asks, tells_prompt = request.sampling.logprobs, request.sampling.prompt_logprobs
        assert len(request.logprobs) == (0 if asks is None else len(request.committed))
        assert len(request.prompt_logprobs) == (0 if tells_prompt is None else len(PROMPT) - 1)
    assert len(engine.sequences) == 0 and engine.pool.num_in_use == 0
