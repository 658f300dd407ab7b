from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from dspark.candidates import learned_weights
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.learned_weights import NoWeights, find_weights
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.ngram_table import NgramOrder, NgramTable, write_table
from dspark.candidates.target_digest import target_digest


def tensors(folder: Path, name: str, values: dict[str, bytes], *, reverse: bool = False) -> Path:
    """A safetensors file of one-dimensional U8 tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}} if reverse else {}
    body = b""
    for key in sorted(values, reverse=reverse):
        start, body = len(body), body + values[key]
        header[key] = {
            "dtype": "U8",
            "shape": [len(values[key])],
            "data_offsets": [start, len(body)],
        }
    text = json.dumps(header).encode()
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + body)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tensors(tmp_path / "model", "model.safetensors", {"a": b"12", "b": b"345"})


def ngram_table(path: Path, digest: str) -> Path:
    write_table(path, NgramTable([NgramOrder(1, 1, [1], [2], [3])], digest), 9, {})
    return path


def test_a_digest_does_not_depend_on_how_tensors_lie_in_files(model: Path, tmp_path: Path) -> None:
    other = tensors(tmp_path / "o", "x.safetensors", {"a": b"12", "b": b"345"}, reverse=True)
    split = tensors(tmp_path / "s", "1.safetensors", {"b": b"345"})
    tensors(split, "2.safetensors", {"a": b"12"})
    assert target_digest(model) == target_digest(other) == target_digest(split)


@pytest.mark.parametrize(
    "values", [{"a": b"12", "b": b"346"}, {"a": b"12"}, {"c": b"12", "b": b"345"}]
)
def test_other_weights_have_another_digest(
    model: Path, tmp_path: Path, values: dict[str, bytes]
) -> None:
    other = tensors(tmp_path / "other", "model.safetensors", values)
    assert target_digest(other) != target_digest(model)


@pytest.mark.parametrize("content", [b"", b"123", b"\xff" * 40, struct.pack("<Q", 4) + b"abcd"])
def test_a_file_that_is_no_weights_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="no safetensors file"):
        target_digest(tmp_path)


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \*.safetensors"):
        target_digest(tmp_path)


def test_what_ships_is_found_by_the_targets_digest(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_weights, "PRETRAINED", tmp_path / "pretrained")
    folder = tmp_path / "pretrained" / "some-model"
    folder.mkdir(parents=True)
    (folder / "card.json").write_text(json.dumps({"target_digest": target_digest(model)}))
    with pytest.raises(NoWeights):
        find_weights("ngram.bin", None, str(model))
    (folder / "ngram.bin").touch()
    assert find_weights("ngram.bin", None, str(model)).path == folder / "ngram.bin"
    with pytest.raises(NoWeights):
        find_weights("ngram.bin", None, None)


def test_without_names_a_source_without_weights_is_left_out(model: Path) -> None:
    names = [source.name for source in build_sources(CandidatesConfig(model=str(model)))]
    assert names == ["recycle", "suffix", "retrieval"]
    assert names == [source.name for source in build_sources(CandidatesConfig())]


def test_a_named_source_without_weights_is_an_error(model: Path) -> None:
    with pytest.raises(ValueError, match=r"ngram cannot run: no ngram\.bin ships for this target"):
        build_sources(CandidatesConfig(sources=("ngram",), model=str(model)))
    with pytest.raises(ValueError, match="ngram cannot run: --model does not say"):
        build_sources(CandidatesConfig(sources=("ngram",)))


def test_a_given_table_runs_with_its_own_target_only(model: Path, tmp_path: Path) -> None:
    good = ngram_table(tmp_path / "good.bin", target_digest(model))
    bad = ngram_table(tmp_path / "bad.bin", "0" * 64)
    (source,) = build_sources(
        CandidatesConfig(sources=("ngram",), model=str(model), ngram_table=str(good))
    )
    assert source.vitals().num_entries == 1
    for sources in (("ngram",), ()):
        config = CandidatesConfig(sources=sources, model=str(model), ngram_table=str(bad))
        with pytest.raises(ValueError, match=r"bad.bin was trained for another model: for 0000"):
            build_sources(config)


def test_a_table_that_is_not_there_is_an_error(model: Path, tmp_path: Path) -> None:
    config = CandidatesConfig(model=str(model), ngram_table=str(tmp_path / "none.bin"))
    with pytest.raises(ValueError, match=r"ngram cannot run: .*none\.bin"):
        build_sources(config)


def test_a_target_without_readable_weights_only_leaves_learned_sources_out(tmp_path: Path) -> None:
    names = [source.name for source in build_sources(CandidatesConfig(model=str(tmp_path)))]
    assert names == ["recycle", "suffix", "retrieval"]
    with pytest.raises(ValueError, match=r"ngram cannot run: .* has no"):
        build_sources(CandidatesConfig(model=str(tmp_path), sources=("ngram",)))
