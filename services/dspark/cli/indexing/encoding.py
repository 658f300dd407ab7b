"""From files to an index of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspark.candidates.sources.corpus_index import CorpusIndex
from dspark.cli.indexing.inputs import TextFile
from dspark.cli.models.model_tokenizer import ModelTokenizer
from dspark.cli.progress import Part


@dataclass(slots=True)
class EncodedTexts:
    """The index, and how many files are in it and how many were no text."""

    index: CorpusIndex = field(default_factory=CorpusIndex)
    num_files: int = 0
    num_skipped: int = 0


def encode_texts(files: Sequence[TextFile], tokenizer: ModelTokenizer, part: Part) -> EncodedTexts:
    """Read and encode each file as a text of its own; raises CliError for one that must be text."""
    texts = EncodedTexts()
    for done, file in enumerate(files):
        part.update(f"{done * 100 // len(files)} %")
        text = file.read()
        if text is None:
            texts.num_skipped += 1
            continue
        texts.index.add(tokenizer.encode(text))
        texts.num_files += 1
    return texts
