from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspark.training.text_store import StoreMeta, TextStore

META = StoreMeta("digest", vocab_size=50, hidden_size=3, layers=(0, 2))


def features(num_tokens: int, first: int) -> np.ndarray:
    size = (num_tokens - 1) * 6
    return np.arange(first, first + size, dtype=np.uint16).reshape(-1, 2, 3)


def filled(folder: Path) -> TextStore:
    store = TextStore(folder, META)
    store.append((1, 2, 3, 4), 2, features(4, 0))
    store.append((5, 6, 7), 1, features(3, 100))
    return store


def test_texts_come_back_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path)
    store = TextStore(tmp_path, META)
    assert (len(store), store.num_tokens, store.num_answer_tokens) == (2, 7, 4)
    first, second = store.texts()
    assert first.token_ids.tolist() == [1, 2, 3, 4]
    assert (first.num_prompt_tokens, second.num_prompt_tokens) == (2, 1)
    assert second.token_ids.tolist() == [5, 6, 7]
    assert store.prompts() == {(1, 2), (5,)}
    assert np.array_equal(first.features, features(4, 0))
    assert np.array_equal(second.features, features(3, 100))


def test_what_a_killed_writer_left_is_cut_off(tmp_path: Path) -> None:
    filled(tmp_path)
    for name in ("tokens.u32", "features.bf16", "texts.i64"):
        with (tmp_path / name).open("ab") as file:
            file.write(b"\x01" * 7)
    store = TextStore(tmp_path, META)
    store.append((8, 9), 1, features(2, 200))
    texts = TextStore(tmp_path, META).texts()
    assert [text.token_ids.tolist() for text in texts] == [[1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert np.array_equal(texts[2].features, features(2, 200))


def test_a_store_of_another_target_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    other = StoreMeta("other", vocab_size=50, hidden_size=3, layers=(0,))
    with pytest.raises(ValueError, match="layers, target_digest differ"):
        TextStore(tmp_path, other)


def test_a_store_that_lost_data_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "tokens.u32").write_bytes(b"1234")
    with pytest.raises(ValueError, match="shorter than its index"):
        TextStore(tmp_path, META)
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        TextStore(tmp_path, META)


def test_features_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not \(1, 2, 3\)"):
        TextStore(tmp_path, META).append((1, 2), 1, features(3, 0))


def test_a_store_without_layers_keeps_tokens_only(tmp_path: Path) -> None:
    store = TextStore(tmp_path, StoreMeta("digest", 50, 3, ()))
    store.append((1, 2, 3), 1, np.empty((0, 0, 0), dtype=np.uint16))
    (text,) = store.texts()
    assert text.token_ids.tolist() == [1, 2, 3]
    assert text.features.size == 0
