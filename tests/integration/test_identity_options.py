"""Options that change logits, over the whole stack: speculation on equals off, and both are right.

Log-probabilities equal a pass of the same weights over the finished text in another framework.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine_settings import EngineSettings
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import random_prompts
from harness.plain_options import changed_logits, drawn_log_probabilities
from harness.running_scheduler import Streamed, make_request
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.tiny_models import save_tiny_model, tiny_model
from harness.whole_stack import OFF, ON, Job, WholeStack, whole_stack

VOCAB_SIZE = 97
MAX_TOKENS = 24
LARGE_POOL = 4096
# Room for about three of the requests at once: the others wait, or are preempted.
SMALL_POOL = 160
NUM_TOP = 5
EOS = frozenset({1})
OPTIONS: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 1.7},
    "presence": {"presence_penalty": 1.5},
    "frequency": {"frequency_penalty": 0.8},
    "bias": {"logit_bias": ((1, 3.0), (7, 6.0), (8, -100.0))},
    "bad words": {"bad_words": (*((token,) for token in range(10, 40)), (5, 6), (7, 7))},
    "allowed": {"allowed_token_ids": frozenset(range(0, VOCAB_SIZE, 4)) | {1}},
    "min tokens": {"min_tokens": 15, "logit_bias": ((1, 8.0),), "ignore_eos": False},
    "all": {
        "repetition_penalty": 0.9,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.5,
        "logit_bias": ((1, 5.0),),
        "bad_words": ((8,), (5, 4)),
        "min_tokens": 7,
        "ignore_eos": False,
        "top_p": 0.95,
    },
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"), VOCAB_SIZE)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    prompts = random_prompts(6, VOCAB_SIZE)
    made: list[Job] = []
    for fields in OPTIONS.values():
        for temperature in (0.0, 0.8):
            sampling = SamplingParams(
                temperature=temperature,
                seed=100 + len(made),
                max_tokens=MAX_TOKENS,
                logprobs=NUM_TOP,
                prompt_logprobs=2 if len(made) % 2 else None,
                **{"ignore_eos": True, **fields},
            )
            made.append(Job(prompts[len(made) % len(prompts)], sampling))
    return made


def load(config: VerifierConfig, progress: Any) -> Any:
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@asynccontextmanager
async def stacks(
    model_dir: Path,
    script: str,
    jobs: Sequence[Job],
    kv_tokens: int,
    verifier: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[WholeStack, list[Streamed]]]:
    known = KnownOutputs()
    config = VerifierConfig(
        str(model_dir), "127.0.0.1:0", kv_tokens=kv_tokens, block_size=8, **(verifier or {})
    )
    source = ScriptedSource(script, SCRIPTS[script], known.truth, VOCAB_SIZE)
    async with whole_stack(load, config, [source], **settings) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        yield stack, plain
        await stack.check_idle()


def assert_same(given: Sequence[Streamed], plain: Sequence[Streamed]) -> None:
    for index, (one, other) in enumerate(zip(given, plain, strict=True)):
        assert one.token_ids == other.token_ids, f"job {index}"
        assert one.finish_reason == other.finish_reason, f"job {index}"
        # The same bits of logits give the same bits here.
        assert one.logprobs == other.logprobs, f"job {index}"
        assert one.prompt_logprobs == other.prompt_logprobs, f"job {index}"


@pytest.mark.parametrize("script", ["oracle", "alternating", "random", "branchy"])
async def test_on_equals_off(model_dir: Path, jobs: list[Job], script: str) -> None:
    async with stacks(model_dir, script, jobs, LARGE_POOL) as (stack, plain):
        assert_same([await stack.run(job) for job in jobs], plain)
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        hits = await stack.run_together(jobs, use_prefix_cache=True)
        assert_same(hits, plain)
        assert any(streamed.usage.cached_tokens for streamed in hits)
        if script == "oracle":
            accepted = sum(streamed.speculation.accepted for streamed in hits)
            assert accepted > sum(len(streamed.token_ids) for streamed in hits) // 3


@pytest.mark.parametrize("verifier", [{"early_pruning": "1"}, {"compute_ahead": "on"}], ids=str)
async def test_rows_that_leave_a_pass_or_come_ahead_change_nothing(
    model_dir: Path, jobs: list[Job], verifier: dict[str, Any]
) -> None:
    async with stacks(model_dir, "random", jobs, LARGE_POOL, verifier) as (stack, plain):
        for _ in range(3):
            assert_same(await stack.run_together(jobs), plain)
        if "compute_ahead" in verifier:
            assert stack.engine.passes.num_used_rows > 0
        else:
            assert stack.engine.pruner.books.num_audits > 0


@pytest.mark.parametrize("script", ["oracle", "random"])
@pytest.mark.parametrize("settings", [{}, {"max_num_batched_tokens": 7}], ids=["wide", "chunked"])
async def test_preemption_and_chunking_change_nothing(
    model_dir: Path, jobs: list[Job], script: str, settings: dict[str, Any]
) -> None:
    async with stacks(model_dir, script, jobs, SMALL_POOL, **settings) as (stack, plain):
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, OFF), plain)
        if not settings:
            assert (await stack.client.status()).num_preemptions > 0


@pytest.mark.parametrize("speculation", [ON, OFF], ids=["on", "off"])
async def test_a_request_goes_on_from_its_committed_tokens(
    model_dir: Path, jobs: list[Job], speculation: Any
) -> None:
    """As a gateway sends it again when a scheduler was lost."""
    async with stacks(model_dir, "random", jobs, LARGE_POOL) as (stack, plain):
        for index, (job, whole) in enumerate(zip(jobs, plain, strict=True)):
            for done in {1, 8, len(whole.token_ids) - 1}:
                if not 0 < done < len(whole.token_ids):
                    continue
                request = make_request(
                    f"again{index}-{done}",
                    job.prompt,
                    job.sampling,
                    speculation,
                    committed_token_ids=whole.token_ids[:done],
                )
                rest = await stack.client.generate(request)
                assert rest.token_ids == whole.token_ids[done:], f"job {index} after {done}"
                assert rest.logprobs == whole.logprobs[done:]
                assert rest.prompt_logprobs == []


@functools.cache
def reference() -> Any:
    return tiny_model("llama", VOCAB_SIZE)


def teacher_forced(token_ids: Sequence[int]) -> torch.Tensor:
    """[len(token_ids), VOCAB_SIZE] logits of the tokens that follow, by transformers."""
    with torch.no_grad():
        logits: torch.Tensor = reference()(torch.tensor([list(token_ids)])).logits[0]
    return logits.float()


@pytest.mark.parametrize("script", ["oracle", "alternating", "branchy"])
@pytest.mark.parametrize("mode", ["raw", "processed"])
async def test_logprobs_equal_a_teacher_forced_pass(
    model_dir: Path, jobs: list[Job], script: str, mode: str
) -> None:
    async with stacks(model_dir, script, jobs, LARGE_POOL, {"logprobs_mode": mode}) as (stack, _):
        for job, streamed in zip(jobs, await stack.run_together(jobs), strict=True):
            _check_logprobs(job, streamed, mode)


def _check_logprobs(job: Job, streamed: Streamed, mode: str) -> None:
    logits = teacher_forced([*job.prompt, *streamed.token_ids])
    raw = torch.log_softmax(logits.double(), -1)
    assert len(streamed.logprobs) == len(streamed.token_ids)
    ends = frozenset() if job.sampling.ignore_eos else EOS
    for place, (token, told) in enumerate(zip(streamed.token_ids, streamed.logprobs, strict=True)):
        row = len(job.prompt) - 1 + place
        wanted = raw[row].tolist()
        if mode == "processed":
            # Where top-p cuts may turn on the last bit of another framework's logits.
            params = replace(job.sampling, top_p=1.0)
            past = streamed.token_ids[:place]
            changed = changed_logits(logits[row].numpy(), job.prompt, past, params, ends)
            wanted = drawn_log_probabilities(changed, params)
            if job.sampling.top_p < 1:
                continue
        assert told.logprob == pytest.approx(wanted[token], abs=1e-4)
        best = sorted(wanted, reverse=True)[:NUM_TOP]
        assert told.top_logprobs == pytest.approx(best, abs=1e-4)
    if job.sampling.prompt_logprobs is None:
        assert streamed.prompt_logprobs == []
        return
    assert len(streamed.prompt_logprobs) == len(job.prompt) - 1
    for place, told in enumerate(streamed.prompt_logprobs):
        assert told.logprob == pytest.approx(raw[place, job.prompt[place + 1]].item(), abs=1e-4)


async def test_a_long_prompt_is_told_of_over_more_steps_than_were_planned(model_dir: Path) -> None:
    """The verifier computes fewer rows of it in a step than the scheduler asks for."""
    prompt = tuple(random_prompts(40, VOCAB_SIZE, seed=3)[0] * 6)
    sampling = SamplingParams(temperature=0.8, seed=5, max_tokens=8, logprobs=1, prompt_logprobs=3)
    job = Job(prompt, sampling)
    assert len(prompt) > 2 * EngineSettings(num_blocks=1).max_prompt_logits
    async with stacks(model_dir, "random", [job], LARGE_POOL) as (stack, plain):
        again = await stack.run_together([job] * 3, use_prefix_cache=True)
        assert_same(again, plain * 3)
    logits = teacher_forced([*prompt, *plain[0].token_ids])
    raw = torch.log_softmax(logits.double(), -1)
    assert len(plain[0].prompt_logprobs) == len(prompt) - 1
    for place, told in enumerate(plain[0].prompt_logprobs):
        assert told.logprob == pytest.approx(raw[place, prompt[place + 1]].item(), abs=1e-4)
        best = raw[place].topk(3).values.tolist()
        assert told.top_logprobs == pytest.approx(best, abs=1e-4)
