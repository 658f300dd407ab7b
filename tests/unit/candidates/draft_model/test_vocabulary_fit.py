"""Which draft models fit a target: by their tokenizers, or by what their config says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.draft_model.draft_directory import DraftDirectory, read_draft_directory
from dspark.candidates.draft_model.vocabulary_fit import common_ids, pieces_by_id
from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.registry import build_sources
from dspark.candidates.target_digest import target_digest
from harness.byte_tokenizer import byte_tokenizer
from harness.tiny_models import save_tiny_model

VOCAB = 260


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_tiny_model("llama", tmp_path_factory.mktemp("fit") / "target", VOCAB)
    byte_tokenizer([b"ab"]).save(str(folder / "tokenizer.json"))
    return folder


def draft_in(folder: Path, vocab_size: int = VOCAB, tokenizer: Any = None, **config: Any) -> Path:
    save_tiny_model("qwen3", folder, vocab_size, seed=3)
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def read(draft: Path, target: Path) -> DraftDirectory:
    return read_draft_directory(LearnedWeights(draft, target_digest(target)), target)


def test_the_same_tokenizer_fits(target: Path, tmp_path: Path) -> None:
    found = read(draft_in(tmp_path, tokenizer=byte_tokenizer([b"ab"])), target)
    assert found == DraftDirectory(tmp_path, 259, 1.0)


@pytest.mark.parametrize(("vocab_size", "num_ids"), [(300, 259), (259, 259), (200, 200)])
def test_an_embedding_of_another_size_is_used_as_far_as_both_go(
    target: Path, tmp_path: Path, vocab_size: int, num_ids: int
) -> None:
    draft = draft_in(tmp_path, vocab_size, byte_tokenizer([b"ab"]))
    assert read(draft, target).num_ids == num_ids


def test_tokens_that_only_one_has_at_its_end_are_never_proposed(
    target: Path, tmp_path: Path
) -> None:
    tokenizer = byte_tokenizer([b"ab"])
    tokenizer.add_special_tokens(["<more>"])
    draft = draft_in(tmp_path, tokenizer=tokenizer)
    assert common_ids(draft, target) == common_ids(target, draft) == 259


def test_the_first_piece_that_differs_is_named(target: Path, tmp_path: Path) -> None:
    draft = draft_in(tmp_path, tokenizer=byte_tokenizer([b"ba"]))
    with pytest.raises(ValueError, match="id 256 is 'ba' here and 'ab' in"):
        read(draft, target)


def test_a_piece_too_few_shifts_all_that_follow(target: Path, tmp_path: Path) -> None:
    draft = draft_in(tmp_path, tokenizer=byte_tokenizer())
    with pytest.raises(ValueError, match=r"id 256 is '<\|end\|>' here"):
        read(draft, target)


def test_without_a_tokenizer_the_digest_decides(target: Path, tmp_path: Path) -> None:
    digest = target_digest(target)
    said = {"dspark_target_digest": digest, "dspark_error_scale": 1.7}
    assert read(draft_in(tmp_path / "a", **said), target) == DraftDirectory(
        tmp_path / "a", VOCAB, 1.7
    )
    with pytest.raises(ValueError, match="and no dspark_target_digest"):
        read(draft_in(tmp_path / "b"), target)
    with pytest.raises(ValueError, match="has 97 token ids, and the target 260"):
        read(draft_in(tmp_path / "c", 97, **said), target)


def test_a_digest_of_another_target_is_refused_whatever_the_tokenizer(
    target: Path, tmp_path: Path
) -> None:
    draft = draft_in(tmp_path, tokenizer=byte_tokenizer([b"ab"]), dspark_target_digest="0" * 64)
    with pytest.raises(ValueError, match="was trained for another model"):
        read(draft, target)


@pytest.mark.parametrize("scale", [0, -1, "big", float("nan")])
def test_an_error_scale_that_cannot_be_is_refused(
    target: Path, tmp_path: Path, scale: object
) -> None:
    draft = draft_in(tmp_path, dspark_target_digest=target_digest(target), dspark_error_scale=scale)
    with pytest.raises(ValueError, match="dspark_error_scale"):
        read(draft, target)


def test_unigram_vocabularies_are_lists(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    added = [{"id": 2, "content": "<s>"}]
    path.write_text(
        json.dumps({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}, "added_tokens": added})
    )
    assert pieces_by_id(path) == {0: "a", 1: "b", 2: "<s>"}
    path.write_text("{}")
    with pytest.raises(ValueError, match="is damaged"):
        pieces_by_id(path)


def test_what_cannot_run_is_refused_at_the_start(target: Path, tmp_path: Path) -> None:
    def build(**settings: Any) -> None:
        build_sources(CandidatesConfig(sources=("draft",), **settings))

    with pytest.raises(ValueError, match="--model does not say which target"):
        build(draft_model=str(tmp_path))
    with pytest.raises(ValueError, match="no draft ships for this target"):
        build(model=str(target))
    with pytest.raises(ValueError, match=r"has no config\.json"):
        build(model=str(target), draft_model=str(tmp_path))
    said = {"dspark_target_digest": target_digest(target)}
    wider = draft_in(tmp_path / "wider", hidden_size=64, **said)
    with pytest.raises(ValueError, match="wider"):
        build(model=str(target), draft_model=str(wider))
    deeper = draft_in(tmp_path / "deeper", num_hidden_layers=3, **said)
    deeper_config = json.loads((deeper / "config.json").read_text())
    deeper_config.pop("layer_types", None)
    (deeper / "config.json").write_text(json.dumps(deeper_config))
    with pytest.raises(ValueError, match="deeper is damaged: missing keys"):
        build(model=str(target), draft_model=str(deeper))


def test_a_draft_vocabulary_is_read_and_checked(target: Path, tmp_path: Path) -> None:
    draft = draft_in(tmp_path, tokenizer=byte_tokenizer([b"ab"]))
    (draft / "draft_vocabulary.json").write_text("[3, 5, 258]")
    assert read(draft, target).token_ids == (3, 5, 258)
    for wrong in ("[]", "[5, 3]", "[3, 3]", "[3, 259]", "[-1, 3]", "3", '["a"]', "["):
        (draft / "draft_vocabulary.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"draft_vocabulary\.json is damaged"):
            read(draft, target)
