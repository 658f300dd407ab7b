from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.served_linear import Bfloat16Linear, Int8Linear
from dspark.candidates.sources.block.source import BlockSource
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.target_digest import target_digest
from harness.tiny_block import (
    HIDDEN,
    IDS,
    LAYERS,
    RANK,
    SIZES,
    VOCAB,
    features_of,
    random_states,
    random_tensor,
    save_target,
    tiny_drafter,
    tiny_network,
)


def save(
    path: Path,
    model: Path,
    tensors: dict[str, torch.Tensor] | None = None,
    metadata: dict[str, str] | None = None,
) -> Path:
    """The weights of ``tiny_drafter``, as bfloat16, with changes."""
    known = {
        **tiny_network().state_dict(),
        "markov.first": random_tensor(len(IDS) + 1, RANK, seed=1),
        "markov.second": random_tensor(len(IDS), RANK, seed=2),
    }
    known = {name: tensor.bfloat16() for name, tensor in known.items()}
    known |= {"token_ids": torch.from_numpy(IDS), "temperatures": torch.tensor([1.0, 1.5, 2.0])}
    about = {"version": "1", "target_digest": target_digest(model), "layers": "0,1"}
    about |= {name: str(size) for name, size in asdict(SIZES).items()}
    save_file(known | (tensors or {}), path, about | (metadata or {}))
    return path


def source_of(model: Path, weights: Path) -> BlockSource:
    config = CandidatesConfig(sources=("block",), model=str(model), block_weights=str(weights))
    (source,) = build_sources(config)
    assert isinstance(source, BlockSource)
    return source


def test_guesses_as_the_network_in_the_file_does(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    source = source_of(model, save(tmp_path / "block.safetensors", model))
    assert source.feature_layers == LAYERS
    assert source.num_features == SIZES.window
    wanted = DraftRequest(LiveSequence("r", 1, token_ids=[1] * 9), 4, 3)
    trees = []
    for some in (source, BlockSource(tiny_drafter(tmp_path / "model"))):
        some.observe_features(wanted.sequence, features_of(random_states(8), range(8)))
        trees.append(some.propose([wanted], 0.0)[0])
    # What is served is rounded, once to bfloat16 and once to eight bits.
    assert trees[0].token_ids[0] == trees[1].token_ids[0]
    assert trees[0].scores[0] == pytest.approx(trees[1].scores[0], abs=0.05)


@pytest.mark.parametrize(("kind", "error"), [(Int8Linear, 0.03), (Bfloat16Linear, 0.01)])
def test_served_products_are_near_the_exact_ones(kind: type[torch.nn.Module], error: float) -> None:
    weight, rows = random_tensor(24, 32), random_tensor(2, 3, 32, seed=1)
    exact = rows @ weight.T
    found = kind(weight)(rows)
    assert found.dtype == torch.float32 and found.shape == exact.shape
    assert (found - exact).norm() < error * exact.norm()


def test_weights_of_another_target_are_refused(tmp_path: Path) -> None:
    model, other = save_target(tmp_path / "a"), save_target(tmp_path / "b", seed=1)
    with pytest.raises(ValueError, match="trained for another model"):
        source_of(other, save(tmp_path / "block.safetensors", model))


def test_a_target_of_another_size_is_refused(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    path = save(tmp_path / "block.safetensors", model, metadata={"hidden_size": "4"})
    with pytest.raises(ValueError, match="made for a model of another size"):
        source_of(model, path)


@pytest.mark.parametrize(
    "tensors",
    [
        {"fuse.weight": random_tensor(HIDDEN, HIDDEN)},
        {"layers.1.down.weight": random_tensor(HIDDEN)},
        {"markov.first": random_tensor(len(IDS), RANK)},
        {"markov.second": random_tensor(RANK)},
        {"token_ids": torch.tensor([1, 2, 3, 4, 5, 6, VOCAB])},
        {"temperatures": torch.tensor([1.0])},
        {"temperatures": torch.tensor([1.0, 0.0, 2.0])},
        {"temperatures": torch.tensor([1.0, torch.nan, 2.0])},
    ],
)
def test_tensors_that_do_not_fit_are_damage(
    tmp_path: Path, tensors: dict[str, torch.Tensor]
) -> None:
    model = save_target(tmp_path / "model")
    path = save(tmp_path / "block.safetensors", model, tensors)
    with pytest.raises(ValueError, match="is damaged"):
        source_of(model, path)


@pytest.mark.parametrize(
    "metadata",
    [
        {"version": "0"},
        {"layers": "1,0"},
        {"layers": "0,1,2"},
        {"layers": "-1,0"},
        {"layers": "last"},
        {"num_heads": "3"},
        {"num_slots": "0"},
        {"window": "many"},
        {"inner_size": "1000000000000"},
    ],
)
def test_metadata_that_does_not_fit_is_damage(tmp_path: Path, metadata: dict[str, str]) -> None:
    model = save_target(tmp_path / "model")
    path = save(tmp_path / "block.safetensors", model, metadata=metadata)
    with pytest.raises(ValueError, match="is damaged"):
        source_of(model, path)


def test_a_file_that_lacks_a_tensor_or_its_end_is_refused(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    path = save(tmp_path / "block.safetensors", model, metadata={"num_layers": "3"})
    with pytest.raises(ValueError, match=r"has no tensor layers\.2"):
        source_of(model, path)
    path = save(tmp_path / "block.safetensors", model)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="is damaged"):
        source_of(model, path)


def test_without_weights_the_source_cannot_run(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    with pytest.raises(ValueError, match=r"block cannot run: no block\.safetensors ships"):
        build_sources(CandidatesConfig(sources=("block",), model=str(model)))
    with pytest.raises(ValueError, match="block cannot run: --model"):
        build_sources(CandidatesConfig(sources=("block",)))
