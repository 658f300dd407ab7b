"""The first promise over the whole stack: speculation on equals off, token for token.

Every source and tree shape, every temperature, alone and in a batch, after prefix hits and after
preemptions, on tiny models whose weights are random.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.interface import CandidateSource
from dspark.sampling import SpeculationParams
from dspark.verifier.config import VerifierConfig
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.running_scheduler import Streamed
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import CrashingSource, ScriptedSource, SlowSource
from harness.tiny_models import ARCHITECTURES, save_tiny_model
from harness.untrained_sources import UNTRAINED
from harness.whole_stack import OFF, Job, WholeStack, whole_stack

VOCAB_SIZE = 97
MAX_TOKENS = 24
LARGE_POOL = 4096
# Room for about three of the requests at once: the others wait, or are preempted.
SMALL_POOL = 160

Sources = Callable[[KnownOutputs], Sequence[CandidateSource]]


def real(*names: str) -> Sources:
    return lambda known: build_sources(CandidatesConfig(sources=names))


def scripted(name: str) -> Sources:
    return lambda known: [ScriptedSource(name, SCRIPTS[name], known.truth, VOCAB_SIZE)]


def broken(known: KnownOutputs) -> list[CandidateSource]:
    oracle = SCRIPTS["oracle"]
    return [
        CrashingSource(healthy_calls=3),
        SlowSource("slow", oracle, known.truth, VOCAB_SIZE, delay_s=0.05),
        ScriptedSource("alternating", SCRIPTS["alternating"], known.truth, VOCAB_SIZE),
    ]


def with_features(known: KnownOutputs) -> list[CandidateSource]:
    source = ScriptedSource("features", SCRIPTS["random"], known.truth, VOCAB_SIZE)
    source.feature_layers, source.num_features = (1, 0), 3
    return [source]


SOURCES: dict[str, Sources] = {
    **{name: real(name) for name in UNTRAINED},
    "all real": real(*UNTRAINED),
    **{name: scripted(name) for name in SCRIPTS},
    "features": with_features,
    "broken": broken,
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"), VOCAB_SIZE)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return mixed_jobs(random_prompts(6, VOCAB_SIZE), MAX_TOKENS)


def verifier_config(model_dir: Path, kv_tokens: int, **settings: object) -> VerifierConfig:
    return VerifierConfig(
        str(model_dir),
        "127.0.0.1:0",
        kv_tokens=kv_tokens,
        block_size=8,
        **settings,  # type: ignore[arg-type]
    )


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@asynccontextmanager
async def stacks(
    model_dir: Path, sources: Sources, jobs: Sequence[Job], kv_tokens: int, **settings: object
) -> AsyncIterator[tuple[WholeStack, list[Streamed]]]:
    """A stack whose sources know what plain decoding gives, and that."""
    known = KnownOutputs()
    config = verifier_config(model_dir, kv_tokens)
    async with whole_stack(load, config, sources(known), **settings) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        yield stack, plain
        await stack.check_idle()


def assert_same(given: Sequence[Streamed], plain: Sequence[Streamed]) -> None:
    for index, (one, other) in enumerate(zip(given, plain, strict=True)):
        assert one.token_ids == other.token_ids, f"job {index}"
        assert one.finish_reason == other.finish_reason, f"job {index}"
        assert one.stop_token_id == other.stop_token_id, f"job {index}"
        assert one.usage.completion_tokens == len(one.token_ids), f"job {index}"


@pytest.mark.parametrize("name", SOURCES)
async def test_every_source_gives_the_plain_tokens(
    model_dir: Path, jobs: list[Job], name: str
) -> None:
    async with stacks(model_dir, SOURCES[name], jobs, LARGE_POOL) as (stack, plain):
        alone = [await stack.run(job) for job in jobs]
        assert_same(alone, plain)
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        hits = await stack.run_together(jobs, use_prefix_cache=True)
        assert_same(hits, plain)
        assert any(streamed.usage.cached_tokens for streamed in hits)
        if name == "oracle":
            accepted = sum(streamed.speculation.accepted for streamed in alone)
            assert accepted > sum(len(streamed.token_ids) for streamed in alone) // 2
        if name in ("adversary", "empty"):
            assert not any(streamed.speculation.accepted for streamed in alone)


@pytest.mark.parametrize(
    "name", ["all real", "oracle", "random", "branchy", "adversary", "features"]
)
@pytest.mark.parametrize("settings", [{}, {"max_num_batched_tokens": 7}], ids=["wide", "chunked"])
async def test_preemption_and_chunking_change_nothing(
    model_dir: Path, jobs: list[Job], name: str, settings: dict[str, object]
) -> None:
    async with stacks(model_dir, SOURCES[name], jobs, SMALL_POOL, **settings) as (stack, plain):
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        assert_same(await stack.run_together(jobs, OFF), plain)
        if not settings:
            assert (await stack.client.status()).num_preemptions > 0


@pytest.mark.parametrize("policy", ["off", "fixed", "threshold", "economic"])
async def test_every_policy_gives_the_plain_tokens(
    model_dir: Path, jobs: list[Job], policy: str
) -> None:
    async with stacks(model_dir, SOURCES["random"], jobs, LARGE_POOL, policy=policy) as (
        stack,
        plain,
    ):
        assert_same(await stack.run_together(jobs), plain)


async def test_request_wishes_give_the_plain_tokens(model_dir: Path, jobs: list[Job]) -> None:
    wishes = [
        SpeculationParams(max_draft_tokens=1),
        SpeculationParams(max_draft_tokens=0),
        SpeculationParams(sources=("suffix",)),
        SpeculationParams(max_draft_tokens=15, sources=("recycle", "retrieval")),
    ]
    async with stacks(model_dir, real(*UNTRAINED), jobs, LARGE_POOL) as (stack, plain):
        for wish in wishes:
            assert_same(await stack.run_together(jobs, wish), plain)


@pytest.mark.parametrize("kernels", ["native", "torch"])
@pytest.mark.parametrize("family", ARCHITECTURES)
async def test_every_model_family_and_kernel(
    tmp_path: Path, jobs: list[Job], family: str, kernels: str
) -> None:
    directory = save_tiny_model(family, tmp_path, VOCAB_SIZE)
    known = KnownOutputs()
    config = verifier_config(directory, LARGE_POOL, kernels=kernels)
    source = ScriptedSource("random", SCRIPTS["random"], known.truth, VOCAB_SIZE)
    await check_batching_and_prefix_hits(config, source, known, jobs)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("kernels", ["native", "torch"])
@pytest.mark.parametrize("dtype", ["int8", "int4"])
async def test_weights_of_codes(
    tmp_path: Path, jobs: list[Job], kernels: str, family: str, dtype: str
) -> None:
    directory = save_tiny_model(family, tmp_path, VOCAB_SIZE)
    known = KnownOutputs()
    config = verifier_config(directory, LARGE_POOL, kernels=kernels, weight_dtype=dtype)
    source = ScriptedSource("random", SCRIPTS["random"], known.truth, VOCAB_SIZE)
    await check_batching_and_prefix_hits(config, source, known, jobs)


async def check_batching_and_prefix_hits(
    config: VerifierConfig, source: ScriptedSource, known: KnownOutputs, jobs: list[Job]
) -> None:
    async with whole_stack(load, config, [source]) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        assert_same(await stack.run_together(jobs), plain)
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        await stack.check_idle()
