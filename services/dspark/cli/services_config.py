"""Settings of the services that the command line starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.service_settings import SERVICES, given, of
from dspark.config import setting, with_flag
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.verifier.config import VerifierConfig

_MODEL, _MEMORY, _BATCHING = "model", "memory", "batching"
_SPECULATION, _SOURCES, _ANSWERS = "speculation", "candidate sources", "answers"


@dataclass(frozen=True, slots=True)
class ServicesConfig:
    """Flags for any started services; None means the default of the service that reads it."""

    model: str = setting(
        DEFAULT_MODEL,
        "known name, directory, FILE.gguf or hub id (organisation/name)",
        group=_MODEL,
    )
    weight_dtype: str | None = of(VerifierConfig, "weight_dtype", _MODEL)
    max_model_len: int | None = of(VerifierConfig, "max_model_len", _MODEL)
    exactness: str | None = of(VerifierConfig, "exactness", _MODEL)
    device: str | None = of(VerifierConfig, "device", _MODEL)
    threads: int | None = of(VerifierConfig, "threads", _MODEL)
    kernels: str | None = of(VerifierConfig, "kernels", _MODEL)
    attention: str | None = of(VerifierConfig, "attention", _MODEL, aliases=["--attention-backend"])
    cuda_graphs: bool | None = of(VerifierConfig, "cuda_graphs", _MODEL)
    compute_ahead: str | None = of(VerifierConfig, "compute_ahead", _MODEL)

    kv_tokens: int | None = of(VerifierConfig, "kv_tokens", _MEMORY)
    block_size: int | None = of(VerifierConfig, "block_size", _MEMORY)
    prefix_cache_blocks: int | None = of(VerifierConfig, "prefix_cache_blocks", _MEMORY)
    grammar_cache: int | None = of(VerifierConfig, "grammar_cache", _MEMORY)

    max_num_seqs: int | None = of(SchedulerConfig, "max_num_seqs", _BATCHING)
    max_num_batched_tokens: int | None = of(SchedulerConfig, "max_num_batched_tokens", _BATCHING)
    max_step_rows: int | None = of(VerifierConfig, "max_step_rows", _BATCHING)
    waves: str | None = of(SchedulerConfig, "waves", _BATCHING)

    policy: str | None = of(SchedulerConfig, "policy", _SPECULATION)
    num_draft_tokens: int | None = of(SchedulerConfig, "num_draft_tokens", _SPECULATION)
    max_draft_tokens: int | None = of(SchedulerConfig, "max_draft_tokens", _SPECULATION)
    min_survival: float | None = of(SchedulerConfig, "min_survival", _SPECULATION)
    min_gain: float | None = of(SchedulerConfig, "min_gain", _SPECULATION)
    explore_share: float | None = of(SchedulerConfig, "explore_share", _SPECULATION)
    early_pruning: str | None = of(VerifierConfig, "early_pruning", _SPECULATION)
    calibration_file: str | None = of(
        SchedulerConfig,
        "calibration_file",
        _SPECULATION,
        "file in which what was learnt of candidates' scores outlives a restart; unset: for dspark "
        "serve one in the cache directory, else none",
    )
    decision_log: str | None = of(SchedulerConfig, "decision_log", _SPECULATION)
    record_calls: str | None = of(SchedulerConfig, "record_calls", _SPECULATION)

    sources: tuple[str, ...] = of(CandidatesConfig, "sources", _SOURCES)
    corpus: tuple[str, ...] = of(CandidatesConfig, "corpus", _SOURCES)
    ngram_table: str | None = of(CandidatesConfig, "ngram_table", _SOURCES)
    medusa_weights: str | None = of(CandidatesConfig, "medusa_weights", _SOURCES)
    block_weights: str | None = of(CandidatesConfig, "block_weights", _SOURCES)
    draft_model: str | None = of(CandidatesConfig, "draft_model", _SOURCES)
    draft_kv_tokens: int | None = of(CandidatesConfig, "draft_kv_tokens", _SOURCES)
    redis_url: str | None = of(CandidatesConfig, "redis_url", _SOURCES)
    redis_deadline_ms: float | None = of(CandidatesConfig, "redis_deadline_ms", _SOURCES)
    retrieval_ttl_s: int | None = of(CandidatesConfig, "retrieval_ttl_s", _SOURCES)
    retrieval_max_entries: int | None = of(CandidatesConfig, "retrieval_max_entries", _SOURCES)

    tool_parser: str | None = of(
        GatewayConfig, "tool_parser", _ANSWERS, aliases=["--tool-call-parser"]
    )
    reasoning_parser: str | None = of(GatewayConfig, "reasoning_parser", _ANSWERS)
    allow_chat_template: bool | None = of(GatewayConfig, "allow_chat_template", _ANSWERS)
    logprobs_mode: str | None = of(VerifierConfig, "logprobs_mode", _ANSWERS)

    def __post_init__(self) -> None:
        """Raises ValueError, with the flag, for what a service would refuse once it runs."""
        try:
            self.scheduler(listen="", verifier=("unix:verifier",))
            self.candidates()
            self.verifier(model=self.model)
            self.gateway(model_dir=self.model)
        except ValueError as error:
            raise ValueError(with_flag(str(error), type(self))) from error

    def gateway(self, **more: Any) -> GatewayConfig:
        return GatewayConfig(**given(self, GatewayConfig), **more)

    def scheduler(self, **more: Any) -> SchedulerConfig:
        """The scheduler's settings: what is given here, and ``more``."""
        return SchedulerConfig(**given(self, SchedulerConfig), **more)

    def candidates(self, **more: Any) -> CandidatesConfig:
        return CandidatesConfig(**given(self, CandidatesConfig), **more)

    def verifier(self, **more: Any) -> VerifierConfig:
        return VerifierConfig(**given(self, VerifierConfig), **more)

    @property
    def given(self) -> frozenset[str]:
        """The names of the services' settings that are decided here, be it as the default."""
        return frozenset(name for service in SERVICES.values() for name in given(self, service))
