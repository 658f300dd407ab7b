"""``corpus:NAME``: what followed the last tokens in texts that were indexed before."""

from __future__ import annotations

from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import corpus_key
from dspark.candidates.sources.corpus_file import CorpusFile
from dspark.candidates.sources.corpus_name import source_name
from dspark.candidates.sources.lookup_source import LookupSource
from dspark.candidates.sources.redis_corpus import RedisCorpus
from dspark.candidates.sources.store import KnownContinuations


class CorpusSource(LookupSource):
    """Looks in one corpus, which is the same for all tenants and learns nothing."""

    def __init__(self, name: str, corpus: KnownContinuations) -> None:
        super().__init__(corpus)
        self.name = name

    def space(self, sequence: LiveSequence) -> bytes:
        """None is needed: a corpus is for one model."""
        return b""


def corpus_source(config: CandidatesConfig, name: str) -> CorpusSource:
    """From the corpus's file if the config has one, else from Redis.

    Raises ValueError if there is neither, or the file is not of the config's model.
    """
    source = source_name(name)
    file = config.corpus_files.get(name)
    if file is not None:
        return CorpusSource(source, _from_file(file, config.vocab_size))
    if config.redis_url is None:
        problem = f"give its file (--corpus {name}=FILE), or redis_url if it is in Redis"
        raise ValueError(f"sources: {source}: {problem}")
    corpus = RedisCorpus(
        config.redis_url,
        name=source,
        key=corpus_key(config.model_id, name),
        vocab_size=config.vocab_size,
        deadline_s=config.redis_deadline_ms / 1000,
    )
    return CorpusSource(source, corpus)


def _from_file(file: Path, vocab_size: int | None) -> CorpusFile:
    corpus = CorpusFile(file)
    try:
        corpus.info.check_vocabulary(vocab_size)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return corpus
