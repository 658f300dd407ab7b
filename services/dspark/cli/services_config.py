"""Settings of the services that the command line starts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.config import setting, with_default
from dspark.gateway.config import GatewayConfig
from dspark.gateway.parsing.call_formats import CHOICES as TOOL_PARSERS
from dspark.gateway.parsing.reasoning_parsers import CHOICES as REASONING_PARSERS
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.wave_choice import WAVES
from dspark.verifier.config import EXACTNESS, LOGPROBS_MODES, WEIGHT_DTYPES, VerifierConfig

_GATEWAY = ("tool_parser", "reasoning_parser", "allow_chat_template")
_SCHEDULER = (
    "policy",
    "num_draft_tokens",
    "min_survival",
    "max_num_seqs",
    "waves",
    "calibration_file",
    "decision_log",
)
_CANDIDATES = (
    "sources",
    "corpus",
    "ngram_table",
    "medusa_weights",
    "block_weights",
    "draft_model",
)
_VERIFIER = (
    "kv_tokens",
    "block_size",
    "max_model_len",
    "exactness",
    "kernels",
    "weight_dtype",
    "early_pruning",
    "logprobs_mode",
)


def _of(service: type[Any], name: str, text: str, unset: Any = None, **metadata: Any) -> Any:
    """A field that is ``unset`` by default, with the service's default in its help text."""
    default = next(field.default for field in fields(service) if field.name == name)
    return setting(unset, with_default(text, default), **metadata)


@dataclass(frozen=True, slots=True)
class ServicesConfig:
    """Flags for any started services; None means the default of the service that reads it."""

    model: str = setting(
        DEFAULT_MODEL, "known name, directory, FILE.gguf or hub id (organisation/name)"
    )
    redis_url: str | None = setting(
        None, "store of retrieval and of corpora, such as redis://host:6379/0; unset: in memory"
    )
    policy: str | None = _of(
        SchedulerConfig, "policy", "speculation policy", choices=tuple(POLICIES)
    )
    num_draft_tokens: int | None = _of(
        SchedulerConfig, "num_draft_tokens", "candidates a step under the policy 'fixed'"
    )
    min_survival: float | None = _of(
        SchedulerConfig, "min_survival", "survival from which 'threshold' verifies a candidate"
    )
    calibration_file: str | None = _of(
        SchedulerConfig,
        "calibration_file",
        "where what was learnt of candidates' scores outlives a restart; dspark serve: in the "
        "cache directory",
    )
    decision_log: str | None = _of(
        SchedulerConfig, "decision_log", "file to which decisions are appended for dspark replay"
    )
    sources: tuple[str, ...] = _of(
        CandidatesConfig, "sources", "comma-separated candidate sources", unset=()
    )
    ngram_table: str | None = _of(
        CandidatesConfig, "ngram_table", "n-gram table; unset: the one that ships for the model"
    )
    medusa_weights: str | None = _of(
        CandidatesConfig,
        "medusa_weights",
        "weights of the source medusa; unset: those that ship for the model",
    )
    draft_model: str | None = _of(
        CandidatesConfig, "draft_model", "directory of the model of the source draft"
    )
    block_weights: str | None = _of(
        CandidatesConfig,
        "block_weights",
        "weights of the source block; unset: those that ship for the model",
    )
    corpus: tuple[str, ...] = _of(
        CandidatesConfig, "corpus", "comma-separated NAME=FILE of sources corpus:NAME", unset=()
    )
    kv_tokens: int | None = _of(VerifierConfig, "kv_tokens", "tokens that the KV pool holds")
    block_size: int | None = _of(VerifierConfig, "block_size", "tokens in a KV block")
    max_num_seqs: int | None = _of(
        SchedulerConfig, "max_num_seqs", "largest number of running requests"
    )
    waves: str | None = _of(
        SchedulerConfig,
        "waves",
        "waves in which requests take turns, so that one drafts while the other is verified",
        choices=tuple(WAVES),
    )
    max_model_len: int | None = _of(
        VerifierConfig, "max_model_len", "largest number of tokens of a sequence; 0: the model's"
    )
    exactness: str | None = _of(
        VerifierConfig, "exactness", "promise on equal tokens", choices=EXACTNESS
    )
    kernels: str | None = _of(VerifierConfig, "kernels", "matmul kernels of the verifier")
    weight_dtype: str | None = _of(
        VerifierConfig,
        "weight_dtype",
        "how linear layers hold their weights",
        choices=WEIGHT_DTYPES,
    )
    early_pruning: str | None = _of(
        VerifierConfig,
        "early_pruning",
        "drop hopeless candidates in the middle of a pass: auto, off or a number of LAYERS",
    )
    tool_parser: str | None = _of(
        GatewayConfig,
        "tool_parser",
        "format of tool calls; auto: by the model's chat template",
        choices=TOOL_PARSERS,
    )
    reasoning_parser: str | None = _of(
        GatewayConfig,
        "reasoning_parser",
        "how the model marks its reasoning",
        choices=REASONING_PARSERS,
    )
    allow_chat_template: bool = setting(
        False, "whether requests may bring a chat template, which is a program"
    )
    logprobs_mode: str | None = _of(
        VerifierConfig,
        "logprobs_mode",
        "log-probabilities of: raw, the model's distribution; processed, what is drawn from",
        choices=LOGPROBS_MODES,
    )

    def __post_init__(self) -> None:
        """Raises ValueError, with the flag, for what a service would refuse once it runs."""
        try:
            self.scheduler(listen="", verifier=("unix:verifier",))
            self.candidates()
            self.verifier(model=self.model)
            self.gateway(model_dir=self.model)
        except ValueError as error:
            raise ValueError(_with_flags(str(error))) from error

    def gateway(self, **more: Any) -> GatewayConfig:
        return GatewayConfig(**self._given(_GATEWAY), **more)

    def scheduler(self, **more: Any) -> SchedulerConfig:
        """The scheduler's settings: what is given here, and ``more``."""
        return SchedulerConfig(**self._given(_SCHEDULER), **more)

    def candidates(self, **more: Any) -> CandidatesConfig:
        return CandidatesConfig(**self._given(_CANDIDATES), **more)

    def verifier(self, **more: Any) -> VerifierConfig:
        return VerifierConfig(**self._given(_VERIFIER), **more)

    @property
    def given(self) -> frozenset[str]:
        """The names of the services' settings that are decided here, be it as the default."""
        return frozenset(self._given((*_GATEWAY, *_SCHEDULER, *_CANDIDATES, *_VERIFIER)))

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {
            name: value
            for name, value in values.items()
            if value not in (None, ()) and value is not False
        }


def _with_flags(problem: str) -> str:
    """The problem with ``num_draft_tokens`` at its start written as ``--num-draft-tokens``."""
    for name in (*_GATEWAY, *_SCHEDULER, *_CANDIDATES, *_VERIFIER):
        if problem.startswith(name):
            return f"--{name.replace('_', '-')}{problem.removeprefix(name)}"
    return problem


@dataclass(frozen=True, slots=True)
class ServeConfig(ServicesConfig):
    """Flags of ``dspark serve``."""

    host: str = setting("127.0.0.1", "address to listen on")
    http_port: int = setting(8000, "port of the HTTP API; 0 picks a free one")
    grpc_port: int = setting(50051, "port of the gRPC API; 0 picks a free one")

    def __post_init__(self) -> None:
        # Without arguments super() fails in a class that slots=True has made anew.
        ServicesConfig.__post_init__(self)
        for name in ("http_port", "grpc_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"--{name.replace('_', '-')} must be from 0 to 65535")
        if self.http_port == self.grpc_port != 0:
            raise ValueError(f"--http-port and --grpc-port are both {self.http_port}")
