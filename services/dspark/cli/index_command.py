"""``dspark index``: makes a corpus of texts, which the source ``corpus:NAME`` continues."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from dspark.candidates.sources.context_key import corpus_key
from dspark.candidates.sources.corpus_index import CountedContexts, Entry
from dspark.candidates.sources.corpus_info import CorpusInfo
from dspark.candidates.sources.corpus_name import checked_name, source_name
from dspark.cli.failure import CliError
from dspark.cli.indexing.config import IndexConfig
from dspark.cli.indexing.encoding import EncodedTexts, encode_texts
from dspark.cli.indexing.inputs import TextFile, text_files
from dspark.cli.indexing.output import CorpusOutput, FileOutput, RedisOutput
from dspark.cli.models.model_tokenizer import ModelTokenizer, tokenizer_digest
from dspark.cli.models.prepare import prepare, served_name
from dspark.cli.progress import Part, Progress
from dspark.config import add_arguments, from_namespace

NAME = "index"
HELP = "make a corpus of text files, which guesses for similar texts come from"
_USAGE = 2
_ENTRIES_AN_UPDATE = 1000


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="text file, or directory: all UTF-8 files below it",
    )
    parser.add_argument("--name", required=True, help="the corpus's: its source is corpus:NAME")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the corpus there; default: into Redis"
    )
    add_arguments(parser, IndexConfig)


def run(arguments: argparse.Namespace) -> int:
    config = from_namespace(IndexConfig, arguments)
    output = _output(arguments, config)
    files = text_files(arguments.paths)
    with output:
        texts, num_contexts, num_bytes = _index(files, config, output, Progress())
    print(
        f"{source_name(arguments.name)}: {texts.num_files} files, {texts.index.num_tokens} tokens, "
        f"{num_contexts} contexts, {num_bytes} bytes in {output.place}"
    )
    if texts.num_skipped:
        print(f"left out: {texts.num_skipped} files that are no UTF-8 text")
    return 0


def _output(arguments: argparse.Namespace, config: IndexConfig) -> CorpusOutput:
    """Where the corpus goes: a flag wins over a variable."""
    try:
        name = checked_name(arguments.name)
    except ValueError as error:
        raise CliError(f"--name {error}", _USAGE) from error
    if arguments.out is not None and hasattr(arguments, "redis_url"):
        raise CliError("--out and --redis-url exclude each other", _USAGE)
    if arguments.out is not None:
        return FileOutput(arguments.out)
    if not config.redis_url:
        raise CliError("give --out FILE or --redis-url URL", _USAGE)
    return RedisOutput(config.redis_url, corpus_key(served_name(config.model), name))


def _index(
    files: list[TextFile], config: IndexConfig, output: CorpusOutput, progress: Progress
) -> tuple[EncodedTexts, int, int]:
    """Returns what was read, and the numbers of contexts and bytes that were written."""
    directory = prepare(config.model, progress).directory
    tokenizer = ModelTokenizer(directory)
    with progress.part("encoding texts") as part:
        texts = encode_texts(files, tokenizer, part)
    with progress.part("counting continuations") as part:
        contexts = texts.index.count()
        if not len(contexts):
            raise CliError("the texts are too short: no token has two others before it", _USAGE)
        info = CorpusInfo(
            tokenizer.vocab_size,
            tokenizer_digest(directory),
            texts.index.num_tokens,
            len(contexts),
        )
        return texts, len(contexts), output.write(info, _shown(contexts, part))


def _shown(contexts: CountedContexts, part: Part) -> Iterator[Entry]:
    """The entries, with progress as they are taken."""
    for done, entry in enumerate(contexts):
        if done % _ENTRIES_AN_UPDATE == 0:
            part.update(f"{done * 100 // len(contexts)} %")
        yield entry
