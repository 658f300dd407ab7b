"""Settings of the verifier process."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import (
    ALLOW_PEERS_HELP,
    BackendTransportSettings,
    check_port,
)

EXACTNESS = ("strict", "fast")
WEIGHT_DTYPES = ("auto", "bf16", "fp16", "fp32", "int8", "int4")
LOGPROBS_MODES = ("raw", "processed")
COMPUTE_AHEAD = ("auto", "on", "off")


@dataclass(frozen=True, slots=True)
class VerifierConfig(BackendTransportSettings, LogSettings):
    """Flags and variables of ``python -m dspark.verifier``; see the help text of each field."""

    model: str = field(metadata={"help": "model directory, GGUF file or hub id"})
    listen: str = field(
        default="127.0.0.1:50061", metadata={"help": "host:port or unix:/path to listen on"}
    )
    served_model_name: str = field(
        default="",
        metadata={"help": "name of the model to clients; empty means the last part of --model"},
    )
    kv_tokens: int = field(default=65_536, metadata={"help": "tokens that the KV pool holds"})
    block_size: int = field(
        default=16,
        metadata={"help": "tokens in a KV block; small suits short requests, large long ones"},
    )
    max_model_len: int = field(
        default=0, metadata={"help": "largest number of tokens of a sequence; 0 means the model's"}
    )
    exactness: str = field(
        default="strict",
        metadata={
            "help": "strict: tokens depend on no neighbour; fast: near-ties may differ",
            "choices": EXACTNESS,
        },
    )
    kernels: str = field(default="auto", metadata={"help": "which matmul kernels to use"})
    attention: str = field(
        default="auto",
        metadata={"help": "attention backend: auto, native, torch, flash_attn or flex"},
    )
    cuda_graphs: bool = field(
        default=True, metadata={"help": "replay small passes from recordings on CUDA devices"}
    )
    compute_ahead: str = field(
        default="auto",
        metadata={
            "help": "compute the expected next pass before it is asked for; auto: on devices",
            "choices": COMPUTE_AHEAD,
        },
    )
    early_pruning: str = field(
        default="auto",
        metadata={
            "help": "drop hopeless candidates behind some layers of a pass: auto (where it is "
            "measured to pay), off, or the number of LAYERS behind which"
        },
    )
    logprobs_mode: str = field(
        default="raw",
        metadata={
            "help": "log-probabilities of: raw, the model's own distribution; processed, the one "
            "that tokens are drawn from",
            "choices": LOGPROBS_MODES,
        },
    )
    weight_dtype: str = field(
        default="auto",
        metadata={
            "help": "how linear layers hold their weights; auto: bf16 unless stored as fp32",
            "choices": WEIGHT_DTYPES,
        },
    )
    device: str = field(default="auto", metadata={"help": "cpu, cuda or cuda:N"})
    threads: int = field(
        default=0, metadata={"help": "CPU threads of the model; 0 means all cores"}
    )
    max_step_rows: int = field(
        default=0,
        metadata={"help": "rows that one step should carry; 0 means the device's default"},
    )
    prefix_cache_blocks: int = field(
        default=-1,
        metadata={"help": "unused blocks kept for reuse; 0 means none, -1 a quarter of the pool"},
    )
    grammar_cache: int = field(
        default=64, metadata={"help": "most compiled grammars that are kept for structured outputs"}
    )
    metrics_port: int = field(default=0, metadata={"help": "port of /metrics; 0 means none"})
    lease_s: float = field(
        default=60.0, metadata={"help": "seconds after which an untouched sequence is reclaimed"}
    )
    stall_s: float = field(
        default=30.0, metadata={"help": "seconds after which a running step counts as stalled"}
    )
    drain_s: float = field(
        default=10.0,
        metadata={
            "help": "seconds at shutdown: half for requests to go elsewhere, half for the last step"
        },
    )

    allow_peers: tuple[str, ...] = field(
        default=("scheduler",), metadata={"help": ALLOW_PEERS_HELP}
    )

    def __post_init__(self) -> None:
        self.check_transport()
        self.check_logs()
        self.serving(self.allow_peers)
        check_port(metrics_port=self.metrics_port)
        if self.block_size < 1:
            raise ValueError("--block-size must be at least 1")
        if self.kv_tokens < self.block_size:
            raise ValueError("--kv-tokens must hold at least one block")
        if self.max_model_len < 0 or self.threads < 0 or self.max_step_rows < 0:
            raise ValueError("--max-model-len, --threads and --max-step-rows must be 0 or more")
        if self.max_model_len > (pool := self.num_blocks * self.block_size):
            problem = f"is above the {pool} tokens of the KV pool (--kv-tokens)"
            raise ValueError(f"--max-model-len {self.max_model_len} {problem}")
        if self.prefix_cache_blocks < -1:
            raise ValueError("--prefix-cache-blocks must be -1 or more")
        if self.grammar_cache < 1:
            raise ValueError("--grammar-cache must be at least 1")
        if min(self.lease_s, self.stall_s, self.drain_s) <= 0:
            raise ValueError("--lease-s, --stall-s and --drain-s must be above 0")
        if self.exactness not in EXACTNESS:
            raise ValueError(f"--exactness must be one of {', '.join(EXACTNESS)}")
        if self.compute_ahead not in COMPUTE_AHEAD:
            raise ValueError(f"--compute-ahead must be one of {', '.join(COMPUTE_AHEAD)}")
        if self.early_pruning not in ("auto", "off") and not self.pruning_layer:
            problem = f"must be auto, off or a number of layers, not {self.early_pruning!r}"
            raise ValueError(f"--early-pruning {problem}")
        if self.logprobs_mode not in LOGPROBS_MODES:
            raise ValueError(f"--logprobs-mode must be one of {', '.join(LOGPROBS_MODES)}")
        if self.weight_dtype not in WEIGHT_DTYPES:
            raise ValueError(f"--weight-dtype must be one of {', '.join(WEIGHT_DTYPES)}")

    @property
    def model_id(self) -> str:
        """The name under which the model is served."""
        return self.served_model_name or self.model.rstrip("/").rsplit("/", 1)[-1]

    @property
    def pruning_layer(self) -> int | None:
        """The layers behind which every pass is pruned; None where that is not settled."""
        return int(self.early_pruning) if self.early_pruning.isdecimal() else None

    def computes_ahead(self, device: str) -> bool:
        """Whether passes are computed ahead on a device.

        On a CPU they would take the cores from the services for which a step waits.
        """
        return self.compute_ahead == "on" or (self.compute_ahead == "auto" and device != "cpu")

    @property
    def num_blocks(self) -> int:
        """Whole KV blocks of the pool."""
        return self.kv_tokens // self.block_size

    @property
    def num_evictable_blocks(self) -> int:
        """Most unused blocks that the prefix cache keeps."""
        return self.num_blocks // 4 if self.prefix_cache_blocks < 0 else self.prefix_cache_blocks
