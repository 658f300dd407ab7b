"""Settings of the candidates service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dspark.candidates.sources import corpus_name
from dspark.config import setting
from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import (
    ALLOW_PEERS_HELP,
    BackendTransportSettings,
    check_port,
)


@dataclass(frozen=True, slots=True)
class CandidatesConfig(BackendTransportSettings, LogSettings):
    """Each field is a flag and an environment variable; see ``dspark.config``."""

    listen: str = setting("127.0.0.1:50053", "address: host:port or unix:/path")
    sources: tuple[str, ...] = setting(
        (),
        "comma-separated names of the sources to run; unset: recycle, suffix, retrieval, corpora "
        "with a file, and ngram if a table fits",
    )
    corpus: tuple[str, ...] = setting(
        (),
        "comma-separated NAME=FILE of sources corpus:NAME; one without a file is in Redis; "
        "unset: none",
    )
    vocab_size: int | None = setting(
        None, "token ids below this exist; unset: learned from the tokens that pass by"
    )
    model: str | None = setting(
        None,
        "directory of the target, that weights of learned sources must fit; unset: they do not run",
    )
    ngram_table: str | None = setting(
        None, "file of the source ngram, from 'dspark train ngram'; unset: the one that ships"
    )
    medusa_weights: str | None = setting(
        None, "file of the source medusa, from 'dspark train medusa'; unset: the one that ships"
    )
    draft_model: str | None = setting(
        None,
        "directory of the source draft: a causal model with the target's vocabulary, or one from "
        "'dspark train draft'; unset: the one that ships",
    )
    draft_kv_tokens: int = setting(
        32_768, "tokens of all sequences that the source draft keeps K/V of"
    )
    block_weights: str | None = setting(
        None, "file of the source block, from 'dspark train block'; unset: the one that ships"
    )
    model_id: str = setting(
        "", "the target's name, which separates models in a shared store; empty: one for all"
    )
    propose_deadline_ms: float = setting(20.0, "a tree that takes longer is dropped")
    max_tree_nodes: int = setting(256, "upper limit of the nodes of one tree")
    max_source_failures: int = setting(5, "failures in a row that mute a source")
    min_mute_s: float = setting(1.0, "first pause of a muted source; it doubles with each failure")
    max_mute_s: float = setting(60.0, "longest pause of a muted source")
    lease_s: float = setting(120.0, "a sequence that nobody used for so long is forgotten")
    max_sequences: int = setting(4096, "sequences kept at a time; the longest unused goes first")
    redis_url: str | None = setting(
        None,
        "redis://host:port/db or unix:///path: retrieval's store, and corpora; unset: in memory",
    )
    redis_deadline_ms: float = setting(5.0, "a look-up that takes longer yields nothing")
    retrieval_ttl_s: int = setting(7 * 24 * 3600, "how long Redis keeps what was not seen again")
    retrieval_max_entries: int = setting(
        200_000, "contexts kept: in all in memory (some 250 bytes each), a tenant in Redis"
    )
    metrics_port: int = setting(0, "port of /metrics; 0: none")
    drain_s: float = setting(5.0, "after SIGTERM, running calls have so long to end")
    allow_peers: tuple[str, ...] = setting(("scheduler",), ALLOW_PEERS_HELP)

    def __post_init__(self) -> None:
        self.check_transport()
        self.check_logs()
        self.serving(self.allow_peers)
        check_port(metrics_port=self.metrics_port)
        if len(set(self.sources)) != len(self.sources):
            raise ValueError("sources: a name appears twice")
        if len(self.sources) > MAX_SOURCES:
            raise ValueError(f"sources: there may be {MAX_SOURCES} at most")
        self._check_corpora()
        if self.vocab_size is not None and self.vocab_size < 1:
            raise ValueError("vocab_size: must be at least 1")
        if self.draft_kv_tokens < MIN_DRAFT_KV_TOKENS:
            raise ValueError(f"draft_kv_tokens: must be at least {MIN_DRAFT_KV_TOKENS}")
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0")

    @property
    def corpus_files(self) -> dict[str, Path]:
        """The file of each corpus that has one, by name."""
        return corpus_name.corpus_files(self.corpus)

    def _check_corpora(self) -> None:
        try:
            for name in corpus_name.names_of(self.sources):
                corpus_name.checked_name(name)
        except ValueError as error:
            raise ValueError(f"sources: the corpus {error}") from error
        try:
            files = self.corpus_files
        except ValueError as error:
            raise ValueError(f"corpus: {error}") from error
        for name in files:
            if self.sources and corpus_name.source_name(name) not in self.sources:
                source = corpus_name.source_name(name)
                raise ValueError(
                    f"corpus: {name!r} has a file, but {source} is none of the sources"
                )


# A tree says in 32 bits who proposed a node.
MAX_SOURCES = 32
# Less does not hold a tree and the text that it grows from.
MIN_DRAFT_KV_TOKENS = 256
_POSITIVE = (
    "propose_deadline_ms",
    "max_tree_nodes",
    "max_source_failures",
    "min_mute_s",
    "max_mute_s",
    "lease_s",
    "max_sequences",
    "redis_deadline_ms",
    "retrieval_ttl_s",
    "retrieval_max_entries",
    "drain_s",
)
