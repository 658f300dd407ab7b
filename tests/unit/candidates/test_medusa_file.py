from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.linear_layer import FloatLinear
from dspark.candidates.registry import build_sources
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.sources import draft_heads
from dspark.candidates.sources.draft_heads import AnchoredHeads, DraftHeads
from dspark.candidates.target_digest import target_digest

VOCAB, HIDDEN, HEADS, RANK = 12, 4, 2, 3
IDS = [1, 4, 5, 9, 11]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).bfloat16()


def save_target(
    folder: Path, *, tied: bool = True, name: str = "model.embed_tokens.weight"
) -> Path:
    folder.mkdir()
    tensors = {name: random(VOCAB, HIDDEN)}
    if not tied:
        tensors["lm_head.weight"] = -random(VOCAB, HIDDEN)
    save_file(tensors, folder / "model.safetensors")
    return folder


def save_own(path: Path, model: Path, changes: dict[str, torch.Tensor] | None = None) -> Path:
    tensors = {
        "token_ids": torch.tensor(IDS),
        "blocks.weight": random(HEADS * HIDDEN, 2 * HIDDEN),
        "blocks.bias": random(HEADS * HIDDEN),
        "markov.first": random(len(IDS) + 1, RANK),
        "markov.second": random(len(IDS), RANK),
        "temperatures": torch.tensor([1.0, 2.0]),
    }
    tensors |= changes or {}
    save_file(tensors, path, {"version": "1", "target_digest": target_digest(model)})
    return path


def save_public(path: Path) -> Path:
    tensors: dict[str, torch.Tensor] = {}
    for head in range(3):
        tensors[f"{head}.0.linear.weight"] = random(HIDDEN, HIDDEN)
        tensors[f"{head}.0.linear.bias"] = random(HIDDEN)
        tensors[f"{head}.1.weight"] = random(VOCAB, HIDDEN)
    save_file(tensors, path)
    return path


def heads_of(model: Path, weights: Path) -> DraftHeads:
    config = CandidatesConfig(sources=("medusa",), model=str(model), medusa_weights=str(weights))
    (source,) = build_sources(config)
    return source._heads  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_the_formula(
    tmp_path: Path, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_heads, "linear_layer", FloatLinear)
    model = save_target(tmp_path / "model", tied=tied)
    heads = heads_of(model, save_own(tmp_path / "m.safetensors", model))
    hidden, anchors = np.ones((2, HIDDEN), dtype=np.float32), np.array([3, 4])
    embedding = random(VOCAB, HIDDEN).float()
    head = embedding[IDS] if tied else -embedding[IDS]
    rows = embedding[anchors]
    rows = rows / (rows.pow(2).mean(1, keepdim=True) + 1e-6).sqrt()
    inputs = torch.cat((torch.ones(2, HIDDEN), rows), 1)
    inner = inputs @ random(HEADS * HIDDEN, 2 * HIDDEN).float().T + random(HEADS * HIDDEN).float()
    states = torch.nn.functional.silu(inner).view(2, HEADS, HIDDEN) + 1
    expected = (states @ head.T).numpy()
    np.testing.assert_allclose(heads.logits(hidden, anchors), expected, rtol=1e-4, atol=1e-5)
    assert heads.token_ids.tolist() == IDS
    assert heads.temperatures.tolist() == [1.0, 2.0]


def test_tokens_outside_the_draft_vocabulary_share_a_markov_row(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    heads = heads_of(model, save_own(tmp_path / "m.safetensors", model))
    columns = np.array([0, 3])
    second = random(len(IDS), RANK).float()[columns]
    for token_id, row in ((4, 1), (0, -1), (2, -1)):
        expected = second @ random(len(IDS) + 1, RANK).float()[row]
        np.testing.assert_allclose(heads.bias(token_id, columns), expected, rtol=1e-4, atol=1e-5)


def test_reads_the_layout_of_published_heads(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    heads = heads_of(model, save_public(tmp_path / "medusa_lm_head.safetensors"))
    assert not isinstance(heads, AnchoredHeads)
    hidden = random(2, HIDDEN).float()
    block = torch.nn.functional.silu(
        hidden @ random(HIDDEN, HIDDEN).float().T + random(HIDDEN).float()
    )
    expected = ((hidden + block) @ random(VOCAB, HIDDEN).float().T).numpy()
    found = heads.logits(hidden.numpy(), np.array([0, 1]))
    assert found.shape == (2, 3, VOCAB)
    np.testing.assert_allclose(found[:, 2], expected, rtol=1e-4, atol=1e-5)
    assert heads.bias(1, np.array([0])) is None


def test_weights_of_another_target_are_refused(tmp_path: Path) -> None:
    model, other = save_target(tmp_path / "a"), save_target(tmp_path / "b", tied=False)
    with pytest.raises(ValueError, match="trained for another model"):
        heads_of(other, save_own(tmp_path / "m.safetensors", model))


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks.weight": random(HEADS * HIDDEN, HIDDEN)},
        {"blocks.bias": random(HIDDEN)},
        {"markov.first": random(len(IDS), RANK)},
        {"markov.second": random(RANK)},
        {"token_ids": torch.tensor([1, 2, 3, 4, VOCAB])},
        {"temperatures": torch.tensor([1.0])},
        {"temperatures": torch.tensor([1.0, -1.0])},
        {"temperatures": torch.tensor([torch.inf, 1.0])},
    ],
)
def test_sizes_that_do_not_fit_are_damage(tmp_path: Path, changes: dict[str, torch.Tensor]) -> None:
    model = save_target(tmp_path / "model")
    path = save_own(tmp_path / "m.safetensors", model, changes)
    with pytest.raises(ValueError, match="is damaged"):
        heads_of(model, path)


def test_a_cut_file_is_damage(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model")
    path = save_own(tmp_path / "m.safetensors", model)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="is damaged"):
        heads_of(model, path)
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match="no safetensors file"):
        heads_of(model, path)


def test_a_target_with_other_names_is_refused(tmp_path: Path) -> None:
    model = save_target(tmp_path / "model", name="transformer.wte.weight")
    with pytest.raises(ValueError, match=r"has no tensor model\.embed_tokens\.weight"):
        heads_of(model, save_own(tmp_path / "m.safetensors", model))


def test_reads_all_floating_dtypes(tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    tensors = {"a": values, "b": values.half(), "c": values.bfloat16()}
    save_file({**tensors, "d": torch.tensor([1])}, tmp_path / "x.safetensors")
    file = SafetensorsFile(tmp_path / "x.safetensors")
    for name in tensors:
        assert file.floats(name).tolist() == values.tolist()
        assert file.floats(name, np.array([1])).tolist() == [[0.25, 3.0]]
    with pytest.raises(ValueError, match="not floating point"):
        file.floats("d")
    with pytest.raises(ValueError, match="no tensor e"):
        file.raw("e")
