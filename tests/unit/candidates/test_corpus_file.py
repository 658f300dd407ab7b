from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sources.context_key import ContextKey, context_key
from dspark.candidates.sources.corpus_file import CorpusFile, write_corpus
from dspark.candidates.sources.corpus_info import CorpusInfo
from dspark.candidates.sources.lessons import lessons
from harness.corpora import TOKENIZER, corpus_file, indexed, info_of

TEXT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]
UNKNOWN = (90, 91)


def written(*texts: list[int]) -> bytes:
    index = indexed(*texts)
    file = io.BytesIO()
    assert write_corpus(file, info_of(index), index.count()) == len(file.getvalue())
    return file.getvalue()


def keys_of(text: list[int]) -> list[ContextKey]:
    return list(dict.fromkeys(key for key, _ in lessons(b"", text)))


def test_a_file_holds_what_was_indexed(tmp_path: Path) -> None:
    corpus = CorpusFile(corpus_file(tmp_path / "c", TEXT, [5, 6, 7, 40]))
    entries = dict(indexed(TEXT, [5, 6, 7, 40]).count())
    keys = keys_of(TEXT)
    assert corpus.lookup(keys) == [entries[key.digest] for key in keys]
    assert corpus.num_entries == len(entries)
    assert corpus.info == CorpusInfo(100, TOKENIZER, len(TEXT) + 4, len(entries))


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    corpus = CorpusFile(corpus_file(tmp_path / "c", TEXT))
    unknown = [ContextKey(b"", 2, digest) for digest in (bytes(8), b"\xff" * 8)]
    assert corpus.lookup([*unknown, context_key(b"", UNKNOWN)]) == [[], [], []]
    assert corpus.lookup([]) == []
    assert not corpus.counts


@given(st.lists(st.lists(st.integers(0, 5), max_size=30), max_size=4))
def test_equal_texts_give_equal_bytes(texts: list[list[int]]) -> None:
    assert written(*texts) == written(*texts)


def test_the_form_stays(tmp_path: Path) -> None:
    """A change of the form needs another version, or old files are misread."""
    content = written([1, 2, 3])
    assert content[:16] == b"dscorpus" + b"\1\0\0\0" + b"\x64\0\0\0"
    assert content[16:64] == TOKENIZER + b"\3" + bytes(7) + b"\1" + bytes(7)
    digest = context_key(b"", (1, 2)).digest
    value = b"\1" + digest + b"\1\0" + b"\1" + b"\3\0\0\0"
    assert content[64:72] == bytes([len(value)]) + bytes(7)
    assert content[88:] == digest + bytes([len(value)]) + bytes(7) + value


def test_a_change_of_any_byte_is_found(tmp_path: Path) -> None:
    content = written([1, 2, 3, 4])
    path = tmp_path / "c"
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=f"^{path}: is "):
            CorpusFile(path)


def test_a_cut_or_longer_file_is_refused(tmp_path: Path) -> None:
    content = written([1, 2, 3, 4])
    path = tmp_path / "c"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=f"^{path}: "):
            CorpusFile(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match=f"has {len(content) + 1} bytes where {len(content)} were"):
        CorpusFile(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is no corpus"),
        (b"GGUF" + bytes(1000), "is no corpus"),
        (b"dscorpus\2\0\0\0" + bytes(1000), "is of version 2"),
    ],
)
def test_another_kind_of_file_is_told_apart(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: {problem}"):
        CorpusFile(path)


def test_no_file_and_a_directory_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        CorpusFile(tmp_path / "none")
    with pytest.raises(ValueError, match="Is a directory"):
        CorpusFile(tmp_path)


def test_an_open_file_that_changes_yields_less_and_is_counted(tmp_path: Path) -> None:
    path = corpus_file(tmp_path / "c", [1, 2, 3])
    corpus = CorpusFile(path)
    with path.open("r+b") as file:
        # the version of the one value
        file.seek(-16, io.SEEK_END)
        file.write(b"\x09")
    assert corpus.lookup([context_key(b"", (1, 2))]) == [[]]
    assert corpus.counts["garbage"] == 1


def test_a_file_can_be_replaced_while_it_is_open(tmp_path: Path) -> None:
    path = corpus_file(tmp_path / "c", TEXT)
    corpus = CorpusFile(path)
    corpus_file(tmp_path / "new", [50, 51, 52]).replace(path)
    assert corpus.lookup([context_key(b"", (4, 5))])[0]
    assert CorpusFile(path).lookup([context_key(b"", (50, 51))]) == [[((52,), 1)]]
