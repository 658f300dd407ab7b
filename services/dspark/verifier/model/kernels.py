"""Which kernels run the model: decided by the host and the settings, never by timing."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from dspark.verifier.interfaces import ModelRefused
from dspark.verifier.native.compiler import NativeUnavailable
from dspark.verifier.native.library import Team

log = logging.getLogger(__name__)

_BF16_MATMUL_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})


def choose_device(wanted: str) -> torch.device:
    """The device that ``wanted`` (cpu, cuda, cuda:N or auto) means. Raises ModelRefused."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ModelRefused(f"--device {wanted} is not a device") from error
    if device.type not in ("cpu", "cuda"):
        raise ModelRefused(f"--device {wanted} is not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelRefused(f"--device {wanted} was asked for, but torch sees no CUDA device")
    return device


def native_team(wanted: str, device: torch.device, num_threads: int) -> Team | None:
    """Threads for the CPU kernels, or None where torch's are used. Raises ModelRefused."""
    if wanted == "native" and device.type != "cpu":
        raise ModelRefused(f"--kernels native runs on the CPU, not on {device}")
    if wanted == "torch" or device.type != "cpu":
        return None
    try:
        return Team(num_threads)
    except NativeUnavailable as error:
        if wanted == "native":
            raise ModelRefused(f"--kernels native: {error}") from error
        log.warning("using torch's CPU kernels, which are slower: %s", error)
        return None


def torch_compute_dtype(weights: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype that torch computes in; bfloat16 is very slow on processors without it."""
    if device.type != "cpu" or weights == torch.float32:
        return weights
    if weights == torch.bfloat16 and _cpu_flags() & _BF16_MATMUL_FLAGS:
        return weights
    log.warning("this processor has no bfloat16 matmul: torch computes in float32")
    return torch.float32


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(line.split())
