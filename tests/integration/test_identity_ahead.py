"""Passes ahead of their step over the whole stack: the same tokens, and no block left in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.interface import CandidateSource
from dspark.sampling import SamplingParams
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, Progress
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.running_scheduler import Streamed
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.tiny_models import save_tiny_model
from harness.untrained_sources import UNTRAINED
from harness.whole_stack import OFF, Job, WholeStack, whole_stack

VOCAB_SIZE = 97
LARGE_POOL = 4096
# Room for about three of the requests at once: the others wait, or are preempted.
SMALL_POOL = 160


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"), VOCAB_SIZE)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return mixed_jobs(random_prompts(6, VOCAB_SIZE), max_tokens=24)


def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@asynccontextmanager
async def stack_of(
    model_dir: Path, compute_ahead: str, kv_tokens: int, *sources: CandidateSource, policy: str
) -> AsyncIterator[WholeStack]:
    config = VerifierConfig(
        str(model_dir),
        "127.0.0.1:0",
        kv_tokens=kv_tokens,
        block_size=8,
        compute_ahead=compute_ahead,
    )
    silent = ScriptedSource("empty", SCRIPTS["empty"], KnownOutputs().truth, VOCAB_SIZE)
    async with whole_stack(load, config, sources or [silent], policy=policy) as stack:
        yield stack
        await stack.check_idle()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(model_dir: Path, jobs: list[Job]) -> list[Streamed]:
    """What plain decoding gives when each step computes its own pass."""
    async with stack_of(model_dir, "off", LARGE_POOL, policy="off") as stack:
        streamed = await stack.run_alone(jobs)
        assert stack.engine.passes.num_used_rows == 0
        return streamed


def tokens_of(streamed: list[Streamed]) -> list[tuple[list[int], object]]:
    return [(one.token_ids, one.finish_reason) for one in streamed]


def scripted(name: str) -> Callable[[KnownOutputs], list[CandidateSource]]:
    return lambda known: [ScriptedSource(name, SCRIPTS[name], known.truth, VOCAB_SIZE)]


def real(known: KnownOutputs) -> list[CandidateSource]:
    return build_sources(CandidatesConfig(sources=UNTRAINED))


SOURCES = {"real": real, **{name: scripted(name) for name in ("alternating", "adversary", "empty")}}


@pytest.mark.parametrize("kv_tokens", [LARGE_POOL, SMALL_POOL], ids=["roomy", "tight"])
@pytest.mark.parametrize("policy", ["economic", "fixed"])
@pytest.mark.parametrize("name", SOURCES)
async def test_tokens_are_those_of_plain_decoding(
    model_dir: Path,
    jobs: list[Job],
    plain: list[Streamed],
    name: str,
    policy: str,
    kv_tokens: int,
) -> None:
    known = KnownOutputs()
    known.learn_all(jobs, plain)
    sources = SOURCES[name](known)
    async with stack_of(model_dir, "on", kv_tokens, *sources, policy=policy) as stack:
        assert tokens_of(await stack.run_together(jobs)) == tokens_of(plain)
        again = await stack.run_together(jobs, use_prefix_cache=True)
        assert tokens_of(again) == tokens_of(plain)
        assert tokens_of(await stack.run_together(jobs, OFF)) == tokens_of(plain)
        assert stack.engine.passes.num_used_rows > 0
        if kv_tokens == SMALL_POOL:
            assert (await stack.client.status()).num_preemptions > 0


async def test_plain_steps_wait_for_less_than_their_pass(
    model_dir: Path, jobs: list[Job], plain: list[Streamed]
) -> None:
    async with stack_of(model_dir, "on", LARGE_POOL, policy="off") as stack:
        streamed = await stack.run_alone(jobs)
        assert tokens_of(streamed) == tokens_of(plain)
        for one in streamed:
            # The first token comes with the prompt, the second step computes nothing new.
            if len(one.token_ids) > 2:
                assert 0 < one.steps.ahead_ms <= one.steps.forward_ms
                assert one.steps.overhead_ms > 0
        assert stack.engine.passes.num_dropped_rows <= len(jobs)


async def test_requests_that_leave_take_what_is_ahead_along(
    model_dir: Path, jobs: list[Job], plain: list[Streamed]
) -> None:
    endless = Job((5, 6, 7), SamplingParams(temperature=0.0, max_tokens=1000, ignore_eos=True))
    async with stack_of(model_dir, "on", LARGE_POOL, policy="off") as stack:
        for pause_s in (0.02, 0.05, 0.1):
            leaving = [asyncio.ensure_future(stack.run(endless)) for _ in range(3)]
            staying = asyncio.ensure_future(stack.run_together(jobs))
            await asyncio.sleep(pause_s)
            for task in leaving:
                task.cancel()
            assert tokens_of(await staying) == tokens_of(plain)
            await asyncio.gather(*leaving, return_exceptions=True)
            await stack.check_idle()
