"""The first promise with the source ``block``: untrained, on hidden states of a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.target_digest import target_digest
from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.block_model import BlockModel
from dspark.training.block_sizes import layers_of, sizes_for
from dspark.training.block_weights import write_weights
from dspark.verifier.config import VerifierConfig
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.tiny_models import VOCAB_SIZE, save_tiny_model
from harness.whole_stack import whole_stack


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def weights(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a network as large as one that was trained, with guesses like dice."""
    torch.manual_seed(0)
    token_ids = np.arange(VOCAB_SIZE)
    model = BlockModel(sizes_for(model_dir), TargetMatrices(model_dir), token_ids)
    path = tmp_path_factory.mktemp("block") / "block.safetensors"
    temperatures = np.ones(model.network.sizes.num_slots, dtype=np.float32)
    digest, layers = target_digest(model_dir), layers_of(model_dir)
    write_weights(path, model, token_ids, temperatures, digest, layers)
    return path


def sources_of(model_dir: Path, weights: Path) -> list[CandidateSource]:
    names = ("block", "suffix")
    return build_sources(
        CandidatesConfig(sources=names, model=str(model_dir), block_weights=str(weights))
    )


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


# Room for all requests, and for about three at once: the others wait, or are preempted.
@pytest.mark.parametrize("kv_tokens", [4096, 160])
async def test_an_untrained_block_changes_no_token(
    model_dir: Path, weights: Path, kv_tokens: int
) -> None:
    config = VerifierConfig(str(model_dir), "127.0.0.1:0", kv_tokens=kv_tokens, block_size=8)
    jobs = mixed_jobs(random_prompts(6, VOCAB_SIZE), 24)
    async with whole_stack(load, config, sources_of(model_dir, weights)) as stack:
        plain = [streamed.token_ids for streamed in await stack.run_alone(jobs)]
        drafted: set[str] = set()
        for uses_cache in (False, True, True):
            streams = await stack.run_together(jobs, use_prefix_cache=uses_cache)
            assert [streamed.token_ids for streamed in streams] == plain
            drafted |= {name for streamed in streams for name in streamed.speculation.sources}
        assert "block" in drafted
        (runner,) = (runner for runner in stack.proposer.runners if runner.name == "block")
        assert not runner.failures["raised"] and not runner.failures["garbage"]
        await stack.check_idle()
        assert runner.source.vitals().num_entries == len(stack.proposer.sequences)
