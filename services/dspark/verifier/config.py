"""Settings of the verifier process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from dspark.config import flag_of, setting
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
KERNELS = ("auto", "native", "torch")
ATTENTION = ("auto", "native", "torch", "flash_attn", "flex")
_CHOICES = {
    "exactness": EXACTNESS,
    "weight_dtype": WEIGHT_DTYPES,
    "logprobs_mode": LOGPROBS_MODES,
    "compute_ahead": COMPUTE_AHEAD,
    "kernels": KERNELS,
    "attention": ATTENTION,
}
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def _choice(name: str, text: str) -> Any:
    """A field that is by default the first of its choices."""
    return setting(_CHOICES[name][0], text, choices=_CHOICES[name])


@dataclass(frozen=True, slots=True)
class VerifierConfig(BackendTransportSettings, LogSettings):
    """Flags and variables of ``python -m dspark.verifier``; see the help text of each field."""

    model: str = field(metadata={"help": "model directory, GGUF file or hub id"})
    listen: str = setting("127.0.0.1:50061", "host:port or unix:/path to listen on")
    served_model_name: str = setting(
        "", "name of the model to clients; empty: the last part of --model"
    )
    kv_tokens: int = setting(65_536, "tokens that the KV pool holds")
    block_size: int = setting(
        16, "tokens in a KV block; small suits short requests, large long ones"
    )
    max_model_len: int = setting(0, "largest number of tokens of a sequence; 0: the model's")
    exactness: str = _choice(
        "exactness", "strict: tokens depend on no neighbour; fast: near-ties may differ"
    )
    kernels: str = _choice("kernels", "matmul kernels; auto: native on processors where they run")
    attention: str = _choice(
        "attention", "attention backend; auto: the best one that works on the device"
    )
    cuda_graphs: bool = setting(True, "replay small passes from recordings on CUDA devices")
    compute_ahead: str = _choice(
        "compute_ahead", "compute the expected next pass before it is asked for; auto: on devices"
    )
    early_pruning: str = setting(
        "auto",
        "drop hopeless candidates behind some layers of a pass: auto (where it is measured to "
        "pay), off, or the number of LAYERS behind which",
    )
    logprobs_mode: str = _choice(
        "logprobs_mode",
        "log-probabilities of: raw, the model's own distribution; processed, the one that tokens "
        "are drawn from",
    )
    weight_dtype: str = _choice(
        "weight_dtype", "how linear layers hold their weights; auto: bf16 unless stored as fp32"
    )
    device: str = setting("auto", "what the model runs on: auto, cpu, cuda or cuda:N")
    threads: int = setting(0, "CPU threads of the model; 0: one for each core")
    max_step_rows: int = setting(
        0, "rows (tokens) that one step should carry; 0: 64 on a CPU, 2048 on a GPU"
    )
    prefix_cache_blocks: int = setting(
        -1, "unused KV blocks kept for reuse; 0: none, -1: a quarter of the pool"
    )
    grammar_cache: int = setting(
        64, "largest number of compiled grammars that are kept for structured outputs"
    )
    metrics_port: int = setting(0, "port of /metrics; 0: none")
    lease_s: float = setting(60.0, "time after which an untouched sequence is reclaimed")
    stall_s: float = setting(30.0, "time after which a running step counts as stalled")
    drain_s: float = setting(
        10.0, "time at shutdown: half for requests to go elsewhere, half for the last step"
    )

    allow_peers: tuple[str, ...] = setting(("scheduler",), ALLOW_PEERS_HELP)

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
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{flag_of(name)} must be one of {', '.join(choices)}")
        if not _DEVICE.fullmatch(self.device):
            raise ValueError(f"--device must be auto, cpu, cuda or cuda:N, not {self.device!r}")
        if self.early_pruning not in ("auto", "off") and not self.pruning_layer:
            problem = f"must be auto, off or a number of layers, not {self.early_pruning!r}"
            raise ValueError(f"--early-pruning {problem}")

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
