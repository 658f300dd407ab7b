"""The first promise on the default model: speculation on equals off, token for token."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import REGISTRY, build_sources
from dspark.candidates.target_digest import target_digest
from dspark.sampling import SpeculationParams
from dspark.training.draft_student import DraftStudent, first_layers_of
from dspark.training.draft_weights import write_draft
from dspark.verifier.config import VerifierConfig
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import TEMPERATURES, sampling_mix
from harness.real_model import default_model_dir
from harness.running_scheduler import Streamed
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.whole_stack import OFF, Job, WholeStack, whole_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAX_TOKENS = 28
VOCAB_SIZE = 49_152
# The last one repeats itself, so that the request's own text makes good guesses.
PROMPTS = (
    "<|im_start|>user\nName three rivers of Europe.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a haiku about rain.<|im_end|>\n<|im_start|>assistant\n",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n",
    "one two three, one two three, one two three, one two three, one two",
)


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@pytest.fixture(scope="module")
def draft_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model that was never trained: the target's first layer, over a few tokens."""
    model_dir, path = default_model_dir(), tmp_path_factory.mktemp("draft") / "draft"
    student = DraftStudent(first_layers_of(model_dir, 1), np.arange(2048))
    write_draft(path, student, model_dir, target_digest(model_dir), 1.0)
    return path


def make_jobs() -> list[Job]:
    """Every temperature with filters; every prompt greedy."""
    tokenizer = Tokenizer.from_file(str(default_model_dir() / "tokenizer.json"))
    prompts = [tuple(tokenizer.encode(p, add_special_tokens=False).ids) for p in PROMPTS]
    sampled = [
        Job(prompts[index % len(prompts)], sampling)
        for index, sampling in enumerate(sampling_mix(MAX_TOKENS))
    ]
    greedy = [Job(prompt, replace(sampled[0].sampling, ignore_eos=False)) for prompt in prompts]
    assert {job.sampling.temperature for job in sampled} == set(TEMPERATURES)
    return sampled + greedy


@asynccontextmanager
async def real_stack(
    known: KnownOutputs, draft_dir: Path, kv_tokens: int, **settings: object
) -> AsyncIterator[WholeStack]:
    config = VerifierConfig(str(default_model_dir()), "127.0.0.1:0", kv_tokens=kv_tokens)
    scripted = [
        ScriptedSource(name, SCRIPTS[name], known.truth, VOCAB_SIZE)
        for name in ("random", "branchy", "alternating")
    ]
    learned = {"model": str(default_model_dir()), "draft_model": str(draft_dir)}
    real = build_sources(CandidatesConfig(sources=tuple(REGISTRY), **learned))
    sources = [*real, *scripted]
    async with whole_stack(load, config, sources, max_draft_tokens=31, **settings) as stack:
        yield stack


def assert_same(given: list[Streamed], plain: list[Streamed]) -> None:
    for index, (one, other) in enumerate(zip(given, plain, strict=True)):
        assert one.token_ids == other.token_ids, f"job {index}"
        assert one.finish_reason == other.finish_reason, f"job {index}"


async def test_speculation_batching_and_prefix_hits_change_no_token(draft_dir: Path) -> None:
    jobs, known = make_jobs(), KnownOutputs()
    async with real_stack(known, draft_dir, kv_tokens=8192, num_draft_tokens=12) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        alone = [await stack.run(job) for job in jobs]
        assert_same(alone, plain)
        assert sum(streamed.speculation.accepted for streamed in alone) > 0
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        hits = await stack.run_together(jobs, use_prefix_cache=True)
        assert_same(hits, plain)
        assert any(streamed.usage.cached_tokens for streamed in hits)
        await stack.check_idle()


async def test_no_choice_of_sources_changes_a_token(draft_dir: Path) -> None:
    jobs = make_jobs()[::3]
    assert {job.sampling.temperature for job in jobs} == set(TEMPERATURES)
    alone = [(name,) for name in REGISTRY]
    choices = [*alone, *itertools.combinations(REGISTRY, 2), tuple(REGISTRY)]
    async with real_stack(KnownOutputs(), draft_dir, kv_tokens=8192, num_draft_tokens=7) as stack:
        plain = await stack.run_alone(jobs)
        for sources in choices:
            streams = await stack.run_together(jobs, SpeculationParams(sources=sources))
            assert_same(streams, plain)
            drafted = [set(stream.speculation.sources) for stream in streams]
            assert set().union(*drafted) <= set(sources)
        await stack.check_idle()


async def test_preemption_and_chunked_prefill_change_no_token(draft_dir: Path) -> None:
    jobs, known = make_jobs()[-6:], KnownOutputs()
    async with real_stack(known, draft_dir, kv_tokens=160, max_num_batched_tokens=9) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, OFF), plain)
        assert (await stack.client.status()).num_preemptions > 0
        await stack.check_idle()
