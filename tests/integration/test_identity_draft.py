"""A draft model over the whole stack: plain tokens at all temperatures, many of them guessed.

The draft is the target itself, which a drafter without the target's noise could not follow above
temperature 0, or a model that knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.running_scheduler import Streamed
from harness.tiny_drafts import save_draft
from harness.tiny_models import save_tiny_model
from harness.whole_stack import Job, whole_stack

VOCAB_SIZE = 97
MAX_TOKENS = 24


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("target"), VOCAB_SIZE)


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


def stack_of(target: Path, draft: Path):  # type: ignore[no-untyped-def]
    config = CandidatesConfig(sources=("draft",), model=str(target), draft_model=str(draft))
    verifier = VerifierConfig(str(target), "127.0.0.1:0", kv_tokens=4096, block_size=8)
    return whole_stack(load, verifier, build_sources(config))


def token_ids(streams: list[Streamed]) -> list[list[int]]:
    return [streamed.token_ids for streamed in streams]


def share_accepted(streams: list[Streamed]) -> float:
    generated = sum(len(streamed.token_ids) for streamed in streams)
    return sum(streamed.speculation.accepted for streamed in streams) / generated


@pytest.mark.parametrize(("architecture", "seed"), [("llama", 0), ("qwen3", 5)])
async def test_a_mix_of_requests_gives_the_plain_tokens(
    target: Path, tmp_path: Path, architecture: str, seed: int
) -> None:
    jobs = mixed_jobs(random_prompts(6, VOCAB_SIZE), MAX_TOKENS)
    async with stack_of(
        target, save_draft(target, tmp_path, architecture, VOCAB_SIZE, seed)
    ) as stack:
        plain = token_ids(await stack.run_alone(jobs))
        alone = [await stack.run(job) for job in jobs]
        assert token_ids(alone) == plain
        assert token_ids(await stack.run_together(jobs)) == plain
        assert token_ids(await stack.run_together(jobs, use_prefix_cache=True)) == plain
        await stack.check_idle()
        (runner,) = stack.proposer.runners
        assert runner.num_rounds and not runner.failures
    is_target = (architecture, seed) == ("llama", 0)
    assert share_accepted(alone) > 0.5 if is_target else share_accepted(alone) < 0.5


@pytest.mark.parametrize("temperature", [0.0, 1.3])
async def test_a_draft_that_is_the_target_is_nearly_always_right(
    target: Path, tmp_path: Path, temperature: float
) -> None:
    params = [
        SamplingParams(temperature, seed=seed, max_tokens=MAX_TOKENS, ignore_eos=True)
        for seed in (3, 2**64 - 1, 11)
    ]
    prompts = random_prompts(3, VOCAB_SIZE)
    jobs = [Job(prompt, each) for prompt, each in zip(prompts, params, strict=True)]
    async with stack_of(target, save_draft(target, tmp_path, "llama", VOCAB_SIZE, 0)) as stack:
        plain = token_ids(await stack.run_alone(jobs))
        streams = await stack.run_together(jobs)
        assert token_ids(streams) == plain
    assert share_accepted(streams) > 0.6
    assert len({tuple(tokens) for tokens in plain}) == len(plain)


async def test_a_released_request_leaves_nothing(target: Path, tmp_path: Path) -> None:
    (job, *_) = mixed_jobs(random_prompts(1, VOCAB_SIZE), MAX_TOKENS)
    async with stack_of(target, save_draft(target, tmp_path, "llama", VOCAB_SIZE, 0)) as stack:
        await stack.run(job)
        (runner,) = stack.proposer.runners
        await stack.check_idle()
        await stack.run(job)
        await stack.check_idle()
        # At most the last one's release is still on its way.
        assert len(stack.proposer.sequences) <= 1
        assert runner.source.vitals().num_entries < 200
