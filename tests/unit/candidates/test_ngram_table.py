from __future__ import annotations

from pathlib import Path

import pytest

from dspark.candidates.sources.ngram_table import (
    MAX_SCORE,
    NgramOrder,
    NgramTable,
    context_hash,
    read_table,
    write_table,
)


def order(
    length: int, width: int, contexts: dict[tuple[int, ...], list[tuple[int, int]]]
) -> NgramOrder:
    """``contexts`` maps a context to (token id, score in 255ths)."""
    rows = sorted((context_hash(context), following) for context, following in contexts.items())
    padded = [(following + [(0, 0)] * width)[:width] for _, following in rows]
    return NgramOrder(
        length,
        width,
        [key for key, _ in rows],
        [token_id for row in padded for token_id, _ in row],
        [score for row in padded for _, score in row],
    )


TABLE = NgramTable(
    [
        order(2, 2, {(1, 2): [(3, 204), (4, 51)], (2, 3): [(1, 51)]}),
        order(1, 1, {(3,): [(7, 255)]}),
    ],
    "digest",
)


def written(tmp_path: Path, vocab_size: int = 100) -> Path:
    path = tmp_path / "table.bin"
    write_table(path, TABLE, vocab_size, {"texts": 3})
    return path


@pytest.mark.parametrize("vocab_size", [100, 1 << 16, (1 << 16) + 1])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, vocab_size: int) -> None:
    table = read_table(written(tmp_path, vocab_size))
    assert table.target_digest == "digest"
    assert (table.max_order, table.num_contexts) == (2, 3)
    for context in ((1, 2), (2, 3), (9, 9), (3,), ()):
        assert table.successors(context) == TABLE.successors(context)


def test_the_longest_context_comes_first_and_leaves_the_rest_to_shorter_ones() -> None:
    assert TABLE.successors((1, 2)) == [(3, 204 / MAX_SCORE), (4, 51 / MAX_SCORE)]
    assert TABLE.successors((9, 3)) == [(7, 1.0)]
    assert TABLE.successors((5, 2, 3)) == [(7, pytest.approx(0.8)), (1, 0.2)]
    assert TABLE.successors((5,)) == []


def test_a_hash_depends_on_the_order_of_tokens_and_is_stable() -> None:
    assert context_hash((1, 2)) != context_hash((2, 1))
    assert context_hash((1, 2, 3)) == 0x35D25C91


@pytest.mark.parametrize("size", [0, 4, 11, 20, 200, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, size: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"is damaged|is no n-gram table"):
        read_table(path)


def test_every_changed_byte_of_the_contents_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    sound = path.read_bytes()
    for place in range(len(sound) - 40, len(sound)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            read_table(path)


def test_equal_tables_are_equal_files(tmp_path: Path) -> None:
    assert written(tmp_path).read_bytes() == written(tmp_path).read_bytes()
