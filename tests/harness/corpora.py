"""Corpora of a few tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dspark.candidates.sources.corpus_file import write_corpus
from dspark.candidates.sources.corpus_index import CorpusIndex
from dspark.candidates.sources.corpus_info import CorpusInfo

TOKENIZER = bytes(range(32))


def indexed(*texts: Sequence[int]) -> CorpusIndex:
    index = CorpusIndex()
    for text in texts:
        index.add(text)
    return index


def info_of(index: CorpusIndex, vocab_size: int = 100) -> CorpusInfo:
    return CorpusInfo(vocab_size, TOKENIZER, index.num_tokens, len(index.count()))


def corpus_file(path: Path, *texts: Sequence[int], vocab_size: int = 100) -> Path:
    """The texts' corpus in a file."""
    index = indexed(*texts)
    with path.open("wb") as file:
        write_corpus(file, info_of(index, vocab_size), index.count())
    return path
