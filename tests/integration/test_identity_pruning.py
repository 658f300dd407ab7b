"""Early pruning over the whole stack on tiny models: the same tokens, whatever leaves a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.target_model import CutRunner, Runner
from dspark.verifier.pruning.restricted_logits import RestrictedLogits
from harness.cut_passes import LAYER, Always, AtRandom, From, Ready
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.running_scheduler import Streamed
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.tiny_models import save_tiny_model
from harness.whole_stack import Job, WholeStack, whole_stack

VOCAB_SIZE = 97
JUDGES: dict[str, Callable[[], Ready]] = {
    "everything": lambda: From(-1.0),
    "far_ones": lambda: From(1.0),
    "at_random": lambda: AtRandom(0.4),
}


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(request.param, tmp_path_factory.mktemp(request.param), VOCAB_SIZE)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return mixed_jobs(random_prompts(6, VOCAB_SIZE), max_tokens=24)


def config_of(model_dir: Path, early_pruning: str) -> VerifierConfig:
    return VerifierConfig(
        str(model_dir),
        "127.0.0.1:0",
        kv_tokens=2048,
        block_size=8,
        early_pruning=early_pruning,
    )


def judged_by(judge: Ready) -> Callable[[VerifierConfig, Progress], LoadedModel]:
    """Loads a model whose passes are pruned by ``judge``, one in four audited."""

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        loaded = load_model(config, progress)
        assert isinstance(loaded.runner, Runner)
        cutting = CutRunner(loaded.runner.model, loaded.runner.kv_cache)  # type: ignore[arg-type]
        pruner = RestrictedLogits(cutting, Always(4), {LAYER: judge})
        return replace(loaded, pruner=pruner)

    return load


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(model_dir: Path, jobs: list[Job]) -> list[Streamed]:
    silent = ScriptedSource("empty", SCRIPTS["empty"], KnownOutputs().truth, VOCAB_SIZE)
    async with whole_stack(load_model, config_of(model_dir, "off"), [silent]) as stack:
        return await stack.run_alone(jobs)


async def check(stack: WholeStack, jobs: list[Job], plain: list[Streamed]) -> None:
    for use_prefix_cache in (False, True):
        found = await stack.run_together(jobs, use_prefix_cache=use_prefix_cache)
        assert [(one.token_ids, one.finish_reason) for one in found] == [
            (one.token_ids, one.finish_reason) for one in plain
        ]
    await stack.check_idle()


def sources_of(name: str, jobs: list[Job], plain: list[Streamed]) -> list[ScriptedSource]:
    known = KnownOutputs()
    known.learn_all(jobs, plain)
    return [ScriptedSource(name, SCRIPTS[name], known.truth, VOCAB_SIZE)]


@pytest.mark.parametrize("script", ["branchy", "random", "duplicates"])
@pytest.mark.parametrize("judge", JUDGES)
async def test_tokens_are_those_of_plain_decoding(
    model_dir: Path, jobs: list[Job], plain: list[Streamed], judge: str, script: str
) -> None:
    load, sources = judged_by(JUDGES[judge]()), sources_of(script, jobs, plain)
    async with whole_stack(load, config_of(model_dir, "off"), sources) as stack:
        await check(stack, jobs, plain)
        books = stack.engine.pruner.books
        assert books.num_pruned_rows > 0 and books.num_audits > 0
        if judge == "everything":
            assert books.num_lost_tokens == books.num_audited_tokens > 0


async def test_a_layer_that_is_asked_for(
    model_dir: Path, jobs: list[Job], plain: list[Streamed]
) -> None:
    """Where too little was seen yet, passes are audited."""
    sources = sources_of("branchy", jobs, plain)
    async with whole_stack(load_model, config_of(model_dir, "1"), sources) as stack:
        await check(stack, jobs, plain)
        books = stack.engine.pruner.books
        assert books.num_audits > 0
        for name, value in (
            ("pruned_rows", books.num_pruned_rows),
            ("pruning_audited_tokens", books.num_audited_tokens),
            ("pruning_lost_tokens", books.num_lost_tokens),
        ):
            shown = stack.verifier_metrics.get_sample_value(f"dspark_verifier_{name}_total")
            assert shown == value
